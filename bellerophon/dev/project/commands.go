package project

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/devfile/api/v2/pkg/apis/workspaces/v1alpha2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// maxCommands bounds the tree of a command. Composite commands that name each other several times grow
// exponentially.
const maxCommands = 1000

// commands finds the commands of the groups, after a check of all commands.
func (r *reading) commands() {
	for _, command := range r.spec.Commands {
		r.reference(command)
	}
	for _, group := range []struct {
		kind v1alpha2.CommandGroupKind
		into **Command
	}{
		{v1alpha2.BuildCommandGroupKind, &r.plan.Build},
		{v1alpha2.RunCommandGroupKind, &r.plan.Run},
		{v1alpha2.DebugCommandGroupKind, &r.plan.Debug},
	} {
		if command := r.defaultOf(group.kind); command != nil {
			tree, _ := r.tree(*command, nil, new(int))
			*group.into = &tree
			r.supported(tree)
		}
	}
}

// reference checks what a command refers to.
func (r *reading) reference(command v1alpha2.Command) {
	switch {
	case command.Exec != nil:
		if component := r.component(command.Exec.Component); component == nil || component.Container == nil {
			r.wrong("commands", command.Id, "exec.component", "no container component has the name %q; the containers are: %s",
				command.Exec.Component, cmp.Or(r.containers(), "none"))
		}
	case command.Apply != nil:
		if r.component(command.Apply.Component) == nil {
			r.wrong("commands", command.Id, "apply.component", "no component has the name %q", command.Apply.Component)
		}
	case command.Composite != nil:
		r.tree(command, nil, new(int)) // For its findings.
		for index, name := range command.Composite.Commands {
			if r.command(name) == nil {
				r.wrong("commands", command.Id, fmt.Sprintf("composite.commands.%d", index), "no command has the ID %q", name)
			}
		}
	}
}

func (r *reading) containers() string {
	var names []string
	for _, component := range r.spec.Components {
		if component.Container != nil {
			names = append(names, component.Name)
		}
	}
	return strings.Join(names, ", ")
}

// command returns the command of an ID, or nil. A composite command may write the ID in upper case.
func (r *reading) command(id string) *v1alpha2.Command { return r.commandsByID[strings.ToLower(id)] }

// tree returns a command with all commands below it, and whether it has an end. chain names the commands
// above it, and size counts the commands of the tree.
func (r *reading) tree(command v1alpha2.Command, chain []string, size *int) (Command, bool) {
	tree := Command{Name: command.Id}
	if *size++; *size > maxCommands {
		r.wrong("commands", chain[0], "composite", "it runs more than %d commands", maxCommands)
		return tree, false
	}
	switch {
	case command.Exec != nil:
		exec := command.Exec
		tree.Exec = &Exec{
			Container: exec.Component, Line: exec.CommandLine, WorkingDir: exec.WorkingDir,
			Env: environment(exec.Env), HotReload: exec.GetHotReloadCapable(),
		}
	case command.Apply != nil:
		tree.Apply = command.Apply.Component
	case command.Composite != nil:
		tree.Parallel = command.Composite.GetParallel()
		chain = append(slices.Clone(chain), command.Id)
		for _, name := range command.Composite.Commands {
			below := r.command(name)
			if below == nil {
				continue
			}
			if slices.Contains(chain, below.Id) {
				if chain[0] == below.Id && !slices.ContainsFunc(chain, func(id string) bool { return r.cyclic[id] }) {
					r.cyclic[below.Id] = true // The other commands of the cycle would say the same.
					r.wrong("commands", below.Id, "composite.commands", "it runs itself: %s; remove one of the references",
						strings.Join(append(chain, below.Id), " → "))
				}
				return tree, false
			}
			step, complete := r.tree(*below, chain, size)
			if !complete {
				return tree, false
			}
			tree.Steps = append(tree.Steps, step)
		}
	}
	return tree, true
}

// defaultOf returns the command of a group that runs, or nil.
func (r *reading) defaultOf(kind v1alpha2.CommandGroupKind) *v1alpha2.Command {
	var all, marked []string
	for _, command := range r.spec.Commands {
		group := groupOf(command)
		if group == nil || group.Kind != kind {
			continue
		}
		all = append(all, command.Id)
		if group.GetIsDefault() {
			marked = append(marked, command.Id)
		}
	}
	switch {
	case len(marked) == 1:
		return r.command(marked[0])
	case len(marked) > 1:
		r.wrong("commands", marked[1], "", "the group %s has several default commands: %s; set isDefault for one of them", kind, strings.Join(marked, ", "))
	case len(all) == 1:
		return r.command(all[0])
	case len(all) > 1:
		r.wrong("commands", all[0], "", "the group %s has no default command among %s; set isDefault for one of them", kind, strings.Join(all, ", "))
	}
	return nil
}

func groupOf(command v1alpha2.Command) *v1alpha2.CommandGroup {
	switch {
	case command.Exec != nil:
		return command.Exec.Group
	case command.Apply != nil:
		return command.Apply.Group
	case command.Composite != nil:
		return command.Composite.Group
	}
	return nil
}

// supported checks the components that a command applies. Devfiles of registries have commands for
// images, too, which do no harm as long as nothing runs them.
func (r *reading) supported(tree Command) {
	if component := r.component(tree.Apply); component != nil && component.Kubernetes == nil {
		kind := unsupported(*component)
		if kind == "" {
			kind = "container"
		}
		r.wrong("commands", tree.Name, "apply.component", "it applies %q, and bellerophon dev does not apply components of the kind %s", tree.Apply, kind)
	}
	for _, step := range tree.Steps {
		r.supported(step)
	}
}

// manifests adds the kubernetes components.
func (r *reading) manifests() {
	applied := map[string]bool{} // by any command
	for _, command := range r.spec.Commands {
		if command.Apply != nil {
			applied[command.Apply.Component] = true
		}
	}
	runs := map[string]bool{}
	for _, command := range []*Command{r.plan.Build, r.plan.Run, r.plan.Debug} {
		if command != nil {
			collectApplied(*command, runs)
		}
	}
	for _, component := range r.spec.Components {
		if component.Kubernetes == nil {
			continue
		}
		if component.Kubernetes.Uri != "" {
			r.wrong("components", component.Name, "kubernetes.uri", notFlattened)
			continue
		}
		manifest := Manifest{Component: component.Name, Content: component.Kubernetes.Inlined, Default: !applied[component.Name]}
		if set := component.Kubernetes.DeployByDefault; set != nil {
			manifest.Default = *set
		}
		if manifest.Default || runs[component.Name] {
			if err := checkManifest(manifest.Content); err != nil {
				r.wrong("components", component.Name, "kubernetes", "%s", oneLine(err.Error()))
			}
		}
		r.plan.Manifests = append(r.plan.Manifests, manifest)
	}
}

func collectApplied(tree Command, into map[string]bool) {
	if tree.Apply != "" {
		into[tree.Apply] = true
	}
	for _, step := range tree.Steps {
		collectApplied(step, into)
	}
}

// checkManifest checks that a manifest holds objects of Kubernetes.
func checkManifest(content string) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(content), 4096)
	for number, objects := 1, 0; ; number++ {
		var object unstructured.Unstructured
		err := documents.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF) && objects == 0:
			return errors.New("the manifest has no object")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("decode document %d of the manifest: %w", number, err)
		case len(object.Object) == 0:
			continue
		case object.GetAPIVersion() == "" || object.GetKind() == "":
			return fmt.Errorf("document %d of the manifest has no apiVersion or no kind", number)
		}
		objects++
	}
}
