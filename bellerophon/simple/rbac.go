// The permissions below are all that the operator of BellerophonSimple has. The role in
// charts/bellerophon-operator/files is generated from them, and the chart grants it.
// Whoever adds a request to the reconciler adds its permission here, in the same change.

// It reads the objects whose servers it runs, and writes their status only. Updating the
// finalizers is what lets it own other objects where the API server checks who may block
// a deletion (the admission plugin OwnerReferencesPermissionEnforcement).
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes,verbs=list;watch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/status,verbs=patch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/finalizers,verbs=update

// It makes these three for each object, and leaves their deletion to the garbage collector.
// It gets one by name only where it cannot create it because the name is taken, or where
// the API server finds a repair invalid.
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch

// It reads pods to say why a server does not get ready.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// It tells the user what it did and what failed.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Package simple is the operator of the kind BellerophonSimple: it keeps a StatefulSet,
// a Service and a ConfigMap for each object in the state that the object asks for, and
// reports their state in its status.
package simple
