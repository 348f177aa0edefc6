package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bellerophon is a cluster of the Bellerophon software: a replicated key-value store. Its StatefulSet, Services,
// ConfigMap and PodDisruptionBudget have its name, which limits the name.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=heroes,singular=hero,shortName=bh,categories=bellerophon
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.status.observedGeneration`
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Horse",type=string,JSONPath=`.spec.wingedHorseName`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
//
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="metadata.name must have at most 52 characters, because the labels of the pods carry it together with a hash"
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must consist of a-z, 0-9 and '-', start with a letter and end with a letter or digit, because the Services carry it"
//
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.backup) || size(self.metadata.name) <= 45",message="with spec.backup, metadata.name must have at most 45 characters, because the name of a CronJob carries it"
type Bellerophon struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// The desired state. Every field has a default.
	// +optional
	// +kubebuilder:default={}
	Spec BellerophonSpec `json:"spec,omitzero"`

	// The state that the operator observed. Only the operator writes it.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status BellerophonStatus `json:"status,omitzero"`
}

// BellerophonSpec is the desired state.
//
// +kubebuilder:validation:XValidation:rule="has(self.tls) == has(oldSelf.tls)",message="tls cannot be added or removed, because members with TLS and members without it cannot talk to each other; create a new hero that restores a backup"
//
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || !has(self.storage.retention) || self.storage.retention != 'BackupThenDelete' || has(self.backup)",message="storage.retention BackupThenDelete needs spec.backup, which names the volume of the last backup"
//
// +kubebuilder:validation:XValidation:rule="!has(self.restore) || (has(oldSelf.restore) && self.restore == oldSelf.restore)",message="restore cannot be added or changed, because a backup is restored when the cluster is made; create a new hero"
type BellerophonSpec struct {
	// Name of the winged horse that the cluster carries: 1 to 253 characters.
	// +optional
	// +kubebuilder:default=pegasus
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 253",message="wingedHorseName must have 1 to 253 characters"
	WingedHorseName string `json:"wingedHorseName,omitempty"`

	// Container image of the members: 1 to 1024 characters without white space.
	// +optional
	// +kubebuilder:default="bellerophon-io/bellerophon-server:v1"
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 1024",message="image must have 1 to 1024 characters"
	//
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\s\v\x{85}\p{Z}]')`,message="image must not contain white space"
	Image string `json:"image,omitempty"`

	// Number of members: 1 to 7. Of an even number, one member does not vote, because it would only make a majority
	// harder to reach.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 7",message="replicas must be between 1 and 7; more members make each write slower and nothing safer"
	Replicas *int32 `json:"replicas,omitempty"`

	// What the hero carries. It has no effect on the store.
	// +optional
	Weapons *Weapons `json:"weapons,omitempty"`

	// The volume of each member.
	// +optional
	// +kubebuilder:default={}
	Storage Storage `json:"storage,omitzero"`

	// Settings of the server. A change restarts the members, one at a time.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	//
	// +kubebuilder:validation:XValidation:rule="self.all(name, name in ['election-timeout', 'quota', 'log-level', 'log-format'])",message="config has an unknown setting; allowed are election-timeout, quota, log-level and log-format"
	//
	// +kubebuilder:validation:XValidation:rule="!('log-level' in self) || self['log-level'] in ['debug', 'info', 'warn', 'error']",message="config log-level must be debug, info, warn or error"
	//
	// +kubebuilder:validation:XValidation:rule="!('log-format' in self) || self['log-format'] in ['text', 'json']",message="config log-format must be text or json"
	//
	// +kubebuilder:validation:XValidation:rule="!('quota' in self) || isQuantity(self['quota'])",message="config quota must be a quantity such as 256Mi"
	//
	// +kubebuilder:validation:XValidation:rule="!('election-timeout' in self) || self['election-timeout'].matches('^([0-9]+(ms|s|m))+$')",message="config election-timeout must be a duration such as 1s"
	Config map[string]Setting `json:"config,omitempty"`

	// Resources of each member's container.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources.requests must not exceed resources.limits"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Where the members may run. The default spreads them over nodes where that is possible. Pods of backups and restores have
	// its nodeAffinity only.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// Taints of nodes that the members, and the pods of backups and restores, tolerate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	//
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator in ['', 'Exists', 'Equal'])",message="tolerations operator must be Exists or Equal"
	//
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="tolerations effect must be NoSchedule, PreferNoSchedule or NoExecute"
	//
	// +kubebuilder:validation:XValidation:rule="self.all(t, (has(t.key) && t.key != '') || (has(t.operator) && t.operator == 'Exists'))",message="tolerations without a key need the operator Exists"
	//
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')",message="tolerations with the operator Exists must have no value"
	//
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",message="tolerations with tolerationSeconds need the effect NoExecute"
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// TLS between members, and for clients. Without it, everyone who reaches a member may read and write.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// Backups of the keys, to a volume.
	// +optional
	Backup *Backup `json:"backup,omitempty"`

	// A backup that the cluster begins with. It is restored once, when the cluster is made.
	// +optional
	Restore *Restore `json:"restore,omitempty"`

	// Paused stops all changes by the operator. It still reports the status.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Backup says when backups are taken, and where they are kept. Each one is a file, whose name begins with the hero's.
type Backup struct {
	// Volume claim of the hero's namespace that has the backups. It must exist.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeClaimName string `json:"volumeClaimName"`

	// When a backup is taken, in UTC, as a CronJob has it: "0 3 * * *" is each day at three. Without it, backups are taken on
	// request only. A request is a Job of the CronJob NAME-backup: kubectl create job NAME --from=cronjob/HERO-backup.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	//
	// +kubebuilder:validation:XValidation:rule=`self == "" || self.matches(r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(\*|\?|[0-5]?[0-9](-[0-5]?[0-9])?)(/[0-9]+)?(,(\*|\?|[0-5]?[0-9](-[0-5]?[0-9])?)(/[0-9]+)?)* +(\*|\?|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[0-9]+)?(,(\*|\?|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[0-9]+)?)* +(\*|\?|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[0-9]+)?(,(\*|\?|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[0-9]+)?)* +(\*|\?|(0?[1-9]|1[0-2]|[a-zA-Z]{3})(-(0?[1-9]|1[0-2]|[a-zA-Z]{3}))?)(/[0-9]+)?(,(\*|\?|(0?[1-9]|1[0-2]|[a-zA-Z]{3})(-(0?[1-9]|1[0-2]|[a-zA-Z]{3}))?)(/[0-9]+)?)* +(\*|\?|([0-6]|[a-zA-Z]{3})(-([0-6]|[a-zA-Z]{3}))?)(/[0-9]+)?(,(\*|\?|([0-6]|[a-zA-Z]{3})(-([0-6]|[a-zA-Z]{3}))?)(/[0-9]+)?)*)$")`,message="backup.schedule must have five fields, such as '0 3 * * *', or be @hourly, @daily, @weekly, @monthly or @yearly"
	Schedule string `json:"schedule,omitempty"`

	// How many backups are kept: 1 to 1000.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000",message="backup.keep must be between 1 and 1000"
	Keep *int32 `json:"keep,omitempty"`
}

// Restore names a backup.
type Restore struct {
	// Volume claim of the hero's namespace that has the backup.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeClaimName string `json:"volumeClaimName"`

	// Name of the hero that the backup is of. The default is the name of this hero.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Hero string `json:"hero,omitempty"`

	// File of the backup. The default is the newest one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.contains('/')",message="restore.file must be a file of the volume's folder, without '/'"
	File string `json:"file,omitempty"`
}

// Setting is the value of a setting.
// +kubebuilder:validation:MaxLength=64
type Setting string

// Weapons are what a hero carries.
type Weapons struct {
	// Whether the rifle is automatic.
	// +optional
	AutomaticRifle bool `json:"automaticRifle,omitempty"`
	// Image of the weapons.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// The explosive.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Explosive string `json:"explosive,omitempty"`
}

// Retention says what happens to the volumes of a deleted hero.
// +kubebuilder:validation:Enum=Retain;Delete;BackupThenDelete
type Retention string

// The retentions.
const (
	RetentionRetain           Retention = "Retain"
	RetentionDelete           Retention = "Delete"
	RetentionBackupThenDelete Retention = "BackupThenDelete"
)

// Storage is the volume of a member.
//
// +kubebuilder:validation:XValidation:rule="has(self.className) == has(oldSelf.className) && (!has(self.className) || self.className == oldSelf.className)",message="storage.className cannot be changed, because a volume keeps its class; create a new hero that restores a backup"
type Storage struct {
	// Size of the volume. It can grow, if the class allows it.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0",message="storage.size must be at least 16Mi"
	//
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage.size cannot shrink, because volumes cannot; create a new hero that restores a backup"
	Size resource.Quantity `json:"size,omitzero"`

	// StorageClass of the volume. The default is the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="storage.className must be the name of a StorageClass: a-z, 0-9, '-' and '.'"
	ClassName *string `json:"className,omitempty"`

	// What happens to the volumes when the hero is deleted: Retain, Delete, or BackupThenDelete. With BackupThenDelete, a
	// finalizer keeps the hero until a last backup has been taken to the volume of spec.backup. The volume of a member
	// that left is deleted in any case, because its data is old from then on.
	// +optional
	// +kubebuilder:default=Retain
	Retention Retention `json:"retention,omitempty"`
}

// TLS names certificates.
type TLS struct {
	// Secret with tls.crt, tls.key and ca.crt. Its certificate must be valid for all members, *.NAME-members.NAMESPACE.svc,
	// and for their Service, NAME.NAMESPACE.svc. A member is a server and a client, so it needs both uses: server auth and client auth.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// BellerophonList is the result of a list request.
//
// +kubebuilder:object:root=true
type BellerophonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// The objects of the list.
	Items []Bellerophon `json:"items"`
}
