package hero

// The operator of Bellerophon has these permissions, in addition to the permissions of BellerophonSimple. The role in
// charts/bellerophon-operator/files is generated from them.

// The operator reads the heroes, and writes only their status and their finalizer.
// +kubebuilder:rbac:groups=stable.bellerophon.io,resources=heroes,verbs=list;watch;patch
// +kubebuilder:rbac:groups=stable.bellerophon.io,resources=heroes/status,verbs=patch
// +kubebuilder:rbac:groups=stable.bellerophon.io,resources=heroes/finalizers,verbs=update

// It deletes a StatefulSet when its volumes grow, and leaves the pods, which belong to the next one.
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch

// Backups are a CronJob, and a restore is a Job.
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create

// It replaces pods of an old revision.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete

// It makes volumes larger, and reads the certificate that a hero names.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
