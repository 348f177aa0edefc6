package project

import (
	"os"
	"path"

	"github.com/devfile/api/v2/pkg/validation"
)

// Plan is a devfile as `bellerophon dev` uses it.
type Plan struct {
	Name       string // metadata.name, or ""
	Containers []Container
	Volumes    []Volume
	Manifests  []Manifest
	Build      *Command // nil without a command of the group
	Run        *Command
	Debug      *Command
	Warnings   []string // what the devfile asks for and does not get, a line each
}

// Container is a container component.
type Container struct {
	Name                  string
	Image                 string
	Command               []string
	Args                  []string
	Env                   []Variable
	Mounts                []Mount
	Limits                Resources
	Requests              Resources
	MountSources          bool
	SourceMapping         string // the value of PROJECTS_ROOT
	ProjectSource         string // the value of PROJECT_SOURCE: where the files of the project go
	Endpoints             []Endpoint
	DeploymentAnnotations map[string]string
	ServiceAnnotations    map[string]string
}

// Variable is one variable of an environment.
type Variable struct{ Name, Value string }

// Mount is a volume that a container mounts.
type Mount struct{ Volume, Path string }

// Resources holds quantities of Kubernetes, or "" for a resource that the devfile does not name.
type Resources struct{ Memory, CPU string }

// Endpoint is a port of a container.
type Endpoint struct {
	Name       string
	TargetPort int
	Exposure   string // public, internal or none
	Secure     bool
	Protocol   string
	Path       string
}

// Volume is a volume component.
type Volume struct {
	Name      string
	Size      string // a quantity, or ""
	Ephemeral bool
}

// Manifest is a kubernetes component.
type Manifest struct {
	Component string
	Content   string // one or several YAML documents
	Default   bool   // applied at the start; other manifests wait for an apply command
}

// Command is a command with all commands below it. One of Exec, Apply and Steps is set.
type Command struct {
	Name     string
	Exec     *Exec
	Apply    string // the component to apply
	Steps    []Command
	Parallel bool // the steps run at the same time
}

// Exec is a command line for a container.
type Exec struct {
	Container  string
	Line       string
	WorkingDir string // as the devfile has it; see Container.Directory
	Env        []Variable
	HotReload  bool
}

// Directory returns the absolute path of a command's working directory in the container. It expands
// PROJECT_SOURCE and PROJECTS_ROOT. Without a working directory, commands run where the files of the
// project are, or in / if the container has none of them.
func (c Container) Directory(workingDir string) string {
	start := "/"
	if c.MountSources {
		start = c.ProjectSource
	}
	expanded := os.Expand(workingDir, func(name string) string {
		switch name {
		case validation.EnvProjectsSrc:
			return c.ProjectSource
		case validation.EnvProjectsRoot:
			return c.SourceMapping
		}
		return "${" + name + "}"
	})
	if path.IsAbs(expanded) {
		return path.Clean(expanded)
	}
	return path.Join(start, expanded)
}
