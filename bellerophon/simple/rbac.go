// The operator of BellerophonSimple has only the permissions below. The role in
// charts/bellerophon-operator/files is generated from them, and the chart grants it. A change that
// adds a request to the reconciler must add its permission here.

// The operator reads the objects whose servers it runs, and writes only their status. To own other
// objects, it must be allowed to update finalizers if the API server checks who may block a deletion
// (the admission plugin OwnerReferencesPermissionEnforcement).
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes,verbs=list;watch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/status,verbs=patch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/finalizers,verbs=update

// The operator creates these three for each object, and leaves their deletion to the garbage
// collector. It gets one by name only if the name is taken when it creates the child, or if the API
// server finds a repair invalid.
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch

// The operator reads pods to report why a server does not get ready.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// The operator reports repairs and failures to the user as Events.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Package simple implements the operator of the kind BellerophonSimple. For each object, it keeps a
// StatefulSet, a Service and a ConfigMap in the desired state, and reports their state in the
// object's status.
package simple
