package project

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/devfile/api/v2/pkg/apis/workspaces/v1alpha2"
	"github.com/devfile/api/v2/pkg/validation/variables"
)

const notFlattened = "the devfile is not flattened; run bellerophon dev again"

// finding is one thing that is wrong with a flattened devfile.
type finding struct {
	section string // components, commands or ""
	name    string // the element of the section, or ""
	field   string // the path in the element, with dots
	message string
}

// String returns the finding as one line.
func (f finding) String() string {
	if f.name == "" {
		return f.message
	}
	return fmt.Sprintf("%s %q: %s", strings.TrimSuffix(f.section, "s"), f.name, f.message)
}

// Parse returns the plan of a devfile that Read has flattened. It needs neither files nor a network.
func Parse(flattened []byte) (*Plan, error) {
	plan, findings := parse(flattened)
	if len(findings) == 0 {
		return plan, nil
	}
	faults := make([]error, 0, len(findings))
	for _, found := range findings {
		faults = append(faults, fault{document: "flattened devfile", message: found.String()})
	}
	return nil, joined(faults)
}

func parse(flattened []byte) (*Plan, []finding) {
	fields, err := toJSON(flattened)
	if err != nil {
		return nil, []finding{{message: oneLine(err.Error())}}
	}
	decoded, wrong := decode(fields)
	if wrong != nil {
		var findings []finding
		for _, v := range wrong {
			findings = append(findings, finding{message: v.String()})
		}
		return nil, findings
	}
	if decoded.Parent != nil {
		return nil, []finding{{message: "parent: " + notFlattened}}
	}
	reading := newReading(&decoded.DevWorkspaceTemplateSpec, decoded.Metadata.Name)
	reading.components()
	reading.commands()
	reading.manifests()
	reading.warnings()
	if len(reading.findings) == 0 { // The library's check of commands takes exponential time for some devfiles.
		for _, message := range validated(reading.spec) {
			reading.findings = append(reading.findings, finding{message: message})
		}
	}
	return reading.plan, reading.findings
}

// reading is a plan that is being made.
type reading struct {
	spec     *v1alpha2.DevWorkspaceTemplateSpec
	plan     *Plan
	findings []finding

	componentsByName map[string]*v1alpha2.Component
	commandsByID     map[string]*v1alpha2.Command
	cyclic           map[string]bool // a command of each cycle of composite commands
}

func newReading(spec *v1alpha2.DevWorkspaceTemplateSpec, name string) *reading {
	r := &reading{
		spec: spec, plan: &Plan{Name: name}, componentsByName: map[string]*v1alpha2.Component{},
		commandsByID: map[string]*v1alpha2.Command{}, cyclic: map[string]bool{},
	}
	for index := range spec.Components {
		r.componentsByName[spec.Components[index].Name] = &spec.Components[index]
	}
	for index := range spec.Commands {
		r.commandsByID[spec.Commands[index].Id] = &spec.Commands[index]
	}
	return r
}

func (r *reading) wrong(section, name, field, format string, args ...any) {
	r.findings = append(r.findings, finding{section, name, field, fmt.Sprintf(format, args...)})
}

// component returns the component of a name, or nil.
func (r *reading) component(name string) *v1alpha2.Component { return r.componentsByName[name] }

func (r *reading) components() {
	for _, component := range r.spec.Components {
		switch {
		case component.Container != nil:
			r.container(component.Name, component.Container)
		case component.Volume != nil:
			r.plan.Volumes = append(r.plan.Volumes, Volume{
				Name: component.Name, Size: component.Volume.Size, Ephemeral: component.Volume.GetEphemeral(),
			})
		}
	}
	if len(r.plan.Containers) == 0 {
		r.wrong("components", "", "", "no component is a container: add one for the commands to run in")
	}
}

func (r *reading) container(name string, container *v1alpha2.ContainerComponent) {
	if container.GetDedicatedPod() {
		r.wrong("components", name, "container.dedicatedPod", "dedicatedPod is not supported: remove it, so that the container runs in the application's pod")
	}
	container.DedicatedPod = new(false) // The library checks annotations only where it is set.
	converted := Container{
		Name: name, Image: container.Image, Command: container.Command, Args: container.Args, Env: environment(container.Env),
		Limits:        Resources{Memory: container.MemoryLimit, CPU: container.CpuLimit},
		Requests:      Resources{Memory: container.MemoryRequest, CPU: container.CpuRequest},
		MountSources:  container.GetMountSources(),
		SourceMapping: path.Clean(cmp.Or(container.SourceMapping, "/projects")),
	}
	if !path.IsAbs(converted.SourceMapping) {
		r.wrong("components", name, "container.sourceMapping", "sourceMapping %s is not an absolute path", container.SourceMapping)
	}
	converted.ProjectSource = path.Join(converted.SourceMapping, r.clonePath())
	for index, mount := range container.VolumeMounts {
		if volume := r.component(mount.Name); volume == nil || volume.Volume == nil {
			r.wrong("components", name, fmt.Sprintf("container.volumeMounts.%d", index), "it mounts the volume %q, and no volume component has this name: add one", mount.Name)
		}
		converted.Mounts = append(converted.Mounts, Mount{Volume: mount.Name, Path: cmp.Or(mount.Path, "/"+mount.Name)})
	}
	for index, endpoint := range container.Endpoints {
		if endpoint.TargetPort < 1 || endpoint.TargetPort > 65535 {
			r.wrong("components", name, fmt.Sprintf("container.endpoints.%d.targetPort", index), "%d is not a port: use 1 to 65535", endpoint.TargetPort)
		}
		converted.Endpoints = append(converted.Endpoints, Endpoint{
			Name: endpoint.Name, TargetPort: endpoint.TargetPort, Secure: endpoint.GetSecure(), Path: endpoint.Path,
			Exposure: cmp.Or(string(endpoint.Exposure), string(v1alpha2.PublicEndpointExposure)),
			Protocol: cmp.Or(string(endpoint.Protocol), string(v1alpha2.HTTPEndpointProtocol)),
		})
	}
	if container.Annotation != nil {
		converted.DeploymentAnnotations, converted.ServiceAnnotations = container.Annotation.Deployment, container.Annotation.Service
	}
	r.plan.Containers = append(r.plan.Containers, converted)
}

// clonePath returns where the first project is below the projects' root, as the specification has it.
func (r *reading) clonePath() string {
	if len(r.spec.Projects) == 0 {
		return ""
	}
	first := r.spec.Projects[0]
	clone := cmp.Or(first.ClonePath, first.Name)
	if path.IsAbs(clone) || strings.HasPrefix(path.Clean(clone), "..") {
		r.wrong("projects", first.Name, "clonePath", "clonePath %s leads out of the projects' root", clone)
		return ""
	}
	return clone
}

func environment(variables []v1alpha2.EnvVar) []Variable {
	var converted []Variable
	for _, variable := range variables {
		converted = append(converted, Variable{Name: variable.Name, Value: variable.Value})
	}
	return converted
}

func (r *reading) warnings() {
	warn := func(format string, args ...any) {
		r.plan.Warnings = append(r.plan.Warnings, fmt.Sprintf(format, args...))
	}
	for _, component := range r.spec.Components {
		if kind := unsupported(component); kind != "" {
			warn("component %q is ignored: bellerophon dev does not support components of the kind %s", component.Name, kind)
		}
	}
	if events := r.spec.Events; events != nil {
		for _, event := range []struct {
			name     string
			commands []string
		}{{"preStart", events.PreStart}, {"postStart", events.PostStart}, {"preStop", events.PreStop}, {"postStop", events.PostStop}} {
			if len(event.commands) > 0 {
				warn("the commands of the event %s are not run: %s", event.name, strings.Join(event.commands, ", "))
			}
		}
	}
	// Read has put the values in. To put them in again could make the document grow without bound.
	copied := r.spec.DeepCopy()
	for name := range copied.Variables {
		copied.Variables[name] = ""
	}
	undefined := variables.ValidateAndReplaceGlobalVariable(copied)
	for _, list := range []struct {
		kind  string
		names map[string][]string
	}{{"component", undefined.Components}, {"command", undefined.Commands}} {
		for _, name := range slices.Sorted(maps.Keys(list.names)) {
			slices.Sort(list.names[name])
			warn("%s %q uses variables that the devfile does not define: %s", list.kind, name, strings.Join(list.names[name], ", "))
		}
	}
}

// unsupported returns the kind of a component that bellerophon dev does not support, or "".
func unsupported(component v1alpha2.Component) string {
	switch {
	case component.Openshift != nil:
		return "openshift"
	case component.Image != nil:
		return "image"
	}
	return ""
}
