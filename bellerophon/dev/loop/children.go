package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/project"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// templateAnnotation is on each pod, with the hash of the template that the devfile asks for.
	templateAnnotation = "dev.bellerophon.io/template"

	podPart       = "pod"
	projectVolume = "bellerophon-project"
	stateVolume   = "bellerophon-state"
	defaultSize   = "1Gi" // of a volume without a size, as the specification of devfiles says

	// graceSeconds is how long a pod may take to end. Its commands have nothing to save.
	graceSeconds = 2
)

// idle is what a container runs if the devfile names no command for it: nothing, until SIGTERM. Commands of the
// devfile are run beside it.
var idle = []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"}

// declare declares the children of the Specs.
func (l *Loop) declare() error {
	claims := dependents.Many("claims", func(_ context.Context, config *corev1.ConfigMap, _ *dependents.View) ([]*corev1.PersistentVolumeClaim, error) {
		plan, err := l.planOf(config)
		if err != nil {
			return nil, err
		}
		return claimsOf(plan, l.options.Application)
	}).Ready(exists[*corev1.PersistentVolumeClaim]).Force() // A claim may wait for its first pod.
	l.web = dependents.One("deployment", func(_ context.Context, config *corev1.ConfigMap, _ *dependents.View) (*appsv1.Deployment, error) {
		plan, err := l.planOf(config)
		if err != nil {
			return nil, err
		}
		return deploymentOf(plan, l.options.Application)
	}).Force()
	service := dependents.One("service", func(_ context.Context, config *corev1.ConfigMap, _ *dependents.View) (*corev1.Service, error) {
		plan, err := l.planOf(config)
		if err != nil {
			return nil, err
		}
		return serviceOf(plan, l.options.Application), nil
	}).Force()
	set, err := dependents.NewSet(Name, dependents.Options{}, claims, l.web, service)
	l.set = set
	return err
}

func exists[T any](context.Context, T) (dependents.Readiness, error) {
	return dependents.Readiness{Ready: true}, nil
}

func (l *Loop) planOf(config *corev1.ConfigMap) (*project.Plan, error) {
	specs, err := contract.SpecsOf(config)
	if err != nil {
		return nil, err
	}
	return l.plan(specs.Devfile)
}

func selectorOf(application string) map[string]string {
	return map[string]string{contract.ApplicationLabel: application, contract.PartLabel: podPart}
}

func claimName(application, volume string) string { return application + "-" + volume }

// claimsOf returns a claim for each volume that outlives its pod.
func claimsOf(plan *project.Plan, application string) (claims []*corev1.PersistentVolumeClaim, err error) {
	for _, volume := range plan.Volumes {
		if volume.Ephemeral {
			continue
		}
		size, err := resource.ParseQuantity(cmp.Or(volume.Size, defaultSize))
		if err != nil {
			return nil, fmt.Errorf("read the size of the volume %s: %w", volume.Name, err)
		}
		claims = append(claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claimName(application, volume.Name), Labels: map[string]string{contract.ApplicationLabel: application}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			},
		})
	}
	return claims, nil
}

// deploymentOf returns the Deployment, with one pod that has all containers.
func deploymentOf(plan *project.Plan, application string) (*appsv1.Deployment, error) {
	template, err := templateOf(plan, application)
	if err != nil {
		return nil, err
	}
	template.Annotations[templateAnnotation] = templateSum(plan, application)
	one := int32(1)
	made := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: application, Labels: map[string]string{contract.ApplicationLabel: application}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: selectorOf(application)},
			// Two pods would write to the same volumes, and run the application twice.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: template,
		},
	}
	for _, c := range plan.Containers {
		for key, value := range c.DeploymentAnnotations {
			metav1.SetMetaDataAnnotation(&made.ObjectMeta, key, value)
		}
	}
	return made, nil
}

// templateSum returns a hash of the pod's template.
func templateSum(plan *project.Plan, application string) string {
	template, err := templateOf(plan, application)
	if err != nil {
		return ""
	}
	return sum(template)[:16]
}

func templateOf(plan *project.Plan, application string) (corev1.PodTemplateSpec, error) {
	grace, no := int64(graceSeconds), false
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selectorOf(application), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no, // What runs there needs no rights in the cluster.
			EnableServiceLinks:            &no,
			Volumes: []corev1.Volume{
				{Name: projectVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: stateVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	for _, volume := range plan.Volumes {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(application, volume.Name)}}
		if volume.Ephemeral {
			source = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: volume.Name, VolumeSource: source})
	}
	for _, c := range plan.Containers {
		made, err := containerOf(c)
		if err != nil {
			return template, err
		}
		template.Spec.Containers = append(template.Spec.Containers, made)
	}
	return template, nil
}

func containerOf(c project.Container) (corev1.Container, error) {
	made := corev1.Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args}
	if len(c.Command) == 0 && len(c.Args) == 0 {
		made.Command = idle
	}
	for _, variable := range c.Env {
		made.Env = append(made.Env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	// The state is in each container, as commands of the devfile run in any of them.
	made.VolumeMounts = append(made.VolumeMounts, corev1.VolumeMount{Name: stateVolume, MountPath: container.StateDirectory})
	if c.MountSources {
		made.VolumeMounts = append(made.VolumeMounts, corev1.VolumeMount{Name: projectVolume, MountPath: c.SourceMapping})
		made.Env = append(made.Env, corev1.EnvVar{Name: "PROJECTS_ROOT", Value: c.SourceMapping}, corev1.EnvVar{Name: "PROJECT_SOURCE", Value: c.ProjectSource})
	}
	for _, mount := range c.Mounts {
		made.VolumeMounts = append(made.VolumeMounts, corev1.VolumeMount{Name: mount.Volume, MountPath: mount.Path})
	}
	for _, endpoint := range c.Endpoints {
		made.Ports = append(made.Ports, corev1.ContainerPort{Name: portName(endpoint), ContainerPort: int32(endpoint.TargetPort), Protocol: corev1.ProtocolTCP})
	}
	for _, amount := range []struct {
		text string
		name corev1.ResourceName
		into *corev1.ResourceList
	}{
		{c.Limits.Memory, corev1.ResourceMemory, &made.Resources.Limits}, {c.Requests.Memory, corev1.ResourceMemory, &made.Resources.Requests},
		{c.Limits.CPU, corev1.ResourceCPU, &made.Resources.Limits}, {c.Requests.CPU, corev1.ResourceCPU, &made.Resources.Requests},
	} {
		if amount.text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(amount.text)
		if err != nil {
			return made, fmt.Errorf("read the %s of the container %s: %w", amount.name, c.Name, err)
		}
		if *amount.into == nil {
			*amount.into = corev1.ResourceList{}
		}
		(*amount.into)[amount.name] = quantity
	}
	return made, nil
}

// portName returns the name of an endpoint's port. Names of ports have at most 15 characters.
func portName(endpoint project.Endpoint) string {
	if len(endpoint.Name) <= 15 {
		return endpoint.Name
	}
	return fmt.Sprintf("port-%d", endpoint.TargetPort)
}

// serviceOf returns the Service of the endpoints that others in the cluster may reach, or nil if there is none.
func serviceOf(plan *project.Plan, application string) *corev1.Service {
	made := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: application, Labels: map[string]string{contract.ApplicationLabel: application}},
		Spec:       corev1.ServiceSpec{Selector: selectorOf(application)},
	}
	for _, c := range plan.Containers {
		for key, value := range c.ServiceAnnotations {
			metav1.SetMetaDataAnnotation(&made.ObjectMeta, key, value)
		}
		for _, endpoint := range c.Endpoints {
			isThere := slices.ContainsFunc(made.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == int32(endpoint.TargetPort) })
			if endpoint.Exposure == "none" || isThere {
				continue
			}
			made.Spec.Ports = append(made.Spec.Ports, corev1.ServicePort{
				Name: portName(endpoint), Port: int32(endpoint.TargetPort), TargetPort: intstr.FromInt32(int32(endpoint.TargetPort)), Protocol: corev1.ProtocolTCP,
			})
		}
	}
	if len(made.Spec.Ports) == 0 {
		return nil
	}
	return made
}

// portsOf returns the ports of all endpoints, once each. They are forwarded.
func portsOf(plan *project.Plan) (ports []contract.Port) {
	for _, c := range plan.Containers {
		for _, endpoint := range c.Endpoints {
			if !slices.ContainsFunc(ports, func(port contract.Port) bool { return port.Target == endpoint.TargetPort }) {
				ports = append(ports, contract.Port{Name: endpoint.Name, Target: endpoint.TargetPort})
			}
		}
	}
	return ports
}

// syncContainer returns the container that gets the files, and its directory for them: the one of the run command if
// it has sources, or the first that has. All such containers share one volume.
func syncContainer(plan *project.Plan, specs contract.Specs) (name, source string) {
	command := plan.Run
	if specs.Options.Debug {
		command = plan.Debug
	}
	if command != nil && command.Exec != nil {
		if c := containerNamed(plan, command.Exec.Container); c.MountSources {
			return c.Name, c.ProjectSource
		}
	}
	for _, c := range plan.Containers {
		if c.MountSources {
			return c.Name, c.ProjectSource
		}
	}
	return plan.Containers[0].Name, ""
}

// containerNamed returns a container of a plan. The plan has checked that its commands name containers that exist.
func containerNamed(plan *project.Plan, name string) project.Container {
	i := slices.IndexFunc(plan.Containers, func(c project.Container) bool { return c.Name == name })
	return plan.Containers[i]
}
