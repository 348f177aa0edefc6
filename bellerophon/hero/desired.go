package hero

import (
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/settings"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// appName is the label of the children and pods of all heroes: see [owned.LabelApp].
const appName = "bellerophon"

const (
	containerName    = "server"
	portName         = "http"
	port             = 7070
	volumeData       = "data"
	dataPath         = "/data"
	volumeTLS        = "tls"
	tlsPath          = "/etc/bellerophon/tls"
	volumeTmp        = "tmp"
	tmpPath          = "/tmp"
	configAnnotation = "stable.bellerophon.io/config"
	horseKey         = "BELLEROPHON_HORSE"
	// serviceLabel tells the headless Service from the other one. A ServiceMonitor selects it, as the charts do.
	serviceLabel = "bellerophon.io/service"
	// nonroot is the user of that name in distroless images.
	nonroot = 65532
)

func labelsOf(hero *v1.Bellerophon) map[string]string {
	return map[string]string{owned.LabelApp: appName, owned.LabelInstance: hero.Name, owned.LabelManagedBy: owned.ManagedBy}
}

func selectorOf(hero *v1.Bellerophon) map[string]string {
	return map[string]string{owned.LabelApp: appName, owned.LabelInstance: hero.Name}
}

func metaOf(hero *v1.Bellerophon, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: hero.Namespace, Labels: labelsOf(hero),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hero, v1.GroupVersion.WithKind("Bellerophon"))},
	}
}

// maxReplicas is the largest number of members: the definition of the kind refuses more.
const maxReplicas = 7

// replicasOf returns the desired number of members. The API server sets the default.
func replicasOf(hero *v1.Bellerophon) int32 {
	if hero.Spec.Replicas == nil {
		return 3
	}
	return *hero.Spec.Replicas
}

// votersOf returns how many of the members vote: an odd number.
func votersOf(replicas int32) int32 { return replicas - 1 + replicas%2 }

// podName returns the name of a member's pod.
func podName(hero *v1.Bellerophon, ordinal int32) string {
	return fmt.Sprintf("%s-%d", hero.Name, ordinal)
}

// membersService returns the name of the headless Service that gives each member a name.
func membersService(hero *v1.Bellerophon) string { return hero.Name + "-members" }

// addressOf returns host and port of a member. They outlive its pod.
func addressOf(hero *v1.Bellerophon, pod string) string {
	return fmt.Sprintf("%s.%s.%s.svc:%d", pod, membersService(hero), hero.Namespace, port)
}

// configOf returns the settings, as environment variables of the members.
func configOf(hero *v1.Bellerophon) *corev1.ConfigMap {
	config := &corev1.ConfigMap{ObjectMeta: metaOf(hero, hero.Name), Data: map[string]string{horseKey: hero.Spec.WingedHorseName}}
	for name, value := range hero.Spec.Config {
		config.Data[settings.Variable(name)] = string(value)
	}
	return config
}

// serviceOf returns the Service for clients. It has the ready members.
func serviceOf(hero *v1.Bellerophon) *corev1.Service {
	return &corev1.Service{ObjectMeta: metaOf(hero, hero.Name), Spec: corev1.ServiceSpec{Selector: selectorOf(hero), Ports: ports()}}
}

// membersServiceOf returns the headless Service for the members. They find each other before they are ready.
func membersServiceOf(hero *v1.Bellerophon) *corev1.Service {
	made := &corev1.Service{ObjectMeta: metaOf(hero, membersService(hero)), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: selectorOf(hero), PublishNotReadyAddresses: true, Ports: ports(),
	}}
	made.Labels[serviceLabel] = "members"
	return made
}

func ports() []corev1.ServicePort {
	return []corev1.ServicePort{{Name: portName, Port: port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(portName)}}
}

// budgetOf returns the PodDisruptionBudget: one member at a time.
func budgetOf(hero *v1.Bellerophon) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{ObjectMeta: metaOf(hero, hero.Name), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: selectorOf(hero)},
	}}
}

// whenDeleted returns what the StatefulSet does with the volumes when it is deleted. A last backup comes before their deletion.
func whenDeleted(retention v1.Retention) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if retention == v1.RetentionDelete {
		return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

// setOf returns the StatefulSet with a number of pods. The reconciler replaces pods itself.
func setOf(hero *v1.Bellerophon, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metaOf(hero, hero.Name), Spec: appsv1.StatefulSetSpec{
		Replicas:             &replicas,
		ServiceName:          membersService(hero),
		PodManagementPolicy:  appsv1.ParallelPodManagement,
		UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		Selector:             &metav1.LabelSelector{MatchLabels: selectorOf(hero)},
		Template:             templateOf(hero),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{completed(claimOf(hero))},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType, // See shrink.
			WhenDeleted: whenDeleted(hero.Spec.Storage.Retention),
		},
	}}
}

func claimOf(hero *v1.Bellerophon) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: selectorOf(hero)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: hero.Spec.Storage.ClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: hero.Spec.Storage.Size}},
		},
	}
}

// completed returns a claim with the API server's defaults, which it keeps in a StatefulSet. A list of claims is applied as a
// whole, as a reference to a field is. So without the defaults, only the API server could say whether it is as it should be.
func completed(claim corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	filesystem := corev1.PersistentVolumeFilesystem
	claim.Spec.VolumeMode, claim.Status.Phase = &filesystem, corev1.ClaimPending
	return claim
}

func templateOf(hero *v1.Bellerophon) corev1.PodTemplateSpec {
	yes, no, user := true, false, int64(nonroot)
	arguments := []string{
		"server", "--name=$(POD_NAME)", fmt.Sprintf("--listen=:%d", port), "--data=" + dataPath,
		fmt.Sprintf("--address=$(POD_NAME).%s.%s.svc:%d", membersService(hero), hero.Namespace, port),
	}
	mounts := []corev1.VolumeMount{{Name: volumeData, MountPath: dataPath}, {Name: volumeTmp, MountPath: tmpPath}}
	volumes := []corev1.Volume{{Name: volumeTmp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	scheme := corev1.URISchemeHTTP
	if hero.Spec.TLS != nil {
		scheme = corev1.URISchemeHTTPS
		arguments, mounts, volumes = append(arguments, tlsArguments()...), append(mounts, tlsMount()), append(volumes, tlsVolume(hero))
	}
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portName), Scheme: scheme}},
			PeriodSeconds: period, FailureThreshold: failures,
		}
	}
	affinity := hero.Spec.Affinity
	if affinity == nil {
		affinity = spread(hero)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(hero), Annotations: map[string]string{configAnnotation: owned.ConfigHash(configOf(hero))}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			Affinity:                     affinity,
			Tolerations:                  hero.Spec.Tolerations,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: containerName, Image: hero.Spec.Image, ImagePullPolicy: owned.PullPolicy(hero.Spec.Image), Args: arguments,
				Env:            []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}},
				EnvFrom:        []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: hero.Name}}}},
				Ports:          []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
				Resources:      hero.Spec.Resources,
				LivenessProbe:  probe("/healthz", 10, 6),
				ReadinessProbe: probe("/readyz", 2, 2),
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: mounts,
			}},
			Volumes: volumes,
		},
	}
}

func tlsArguments() []string {
	return []string{"--tls-certificate=" + tlsPath + "/tls.crt", "--tls-key=" + tlsPath + "/tls.key", "--tls-authorities=" + tlsPath + "/ca.crt"}
}

func tlsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: volumeTLS, MountPath: tlsPath, ReadOnly: true}
}

func tlsVolume(hero *v1.Bellerophon) corev1.Volume {
	return corev1.Volume{Name: volumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: hero.Spec.TLS.SecretName}}}
}

// spread prefers another node for each member.
func spread(hero *v1.Bellerophon) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: selectorOf(hero)}, TopologyKey: corev1.LabelHostname,
			},
		}},
	}}
}
