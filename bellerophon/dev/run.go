package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/forward"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/loop"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/manifests"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/project"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/signal"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Part is what a process does.
type Part string

// The parts. Both run in one process by default. Apart, each needs the project's directory.
const (
	BothParts      Part = "both"
	ClientPart     Part = "client"     // writes the Specs and shows the Status
	ControllerPart Part = "controller" // does everything else
)

// Parts lists the parts.
func Parts() []Part { return []Part{BothParts, ClientPart, ControllerPart} }

// cleanUpTime bounds the deletion of what was made.
const cleanUpTime = 30 * time.Second

// Options configures Run. Directory and Namespace are required.
type Options struct {
	Directory   string
	Namespace   string
	Application string // the name of what is made; default the devfile's metadata.name, or the directory's
	Part        Part   // default BothParts
	Debug       bool   // the debug command runs in place of the run command
	Keep        bool   // what was made stays when Run ends

	Files worktree.Options

	Show   func(client.View) // called for each change of the view, from one goroutine; default none
	Say    func(line string) // gets warnings and what is deleted; default none
	Output io.Writer         // gets the output of commands; default none
	Logger *slog.Logger      // default slog.Default()

	isComplete bool
}

// Run runs the application of a project until ctx ends. It fails at once if there is no devfile or if it has mistakes,
// and with an ErrRights if the user lacks rights. Mistakes that are made later are shown, and change nothing.
func Run(ctx context.Context, config *rest.Config, options Options) (err error) {
	if err := options.Complete(); err != nil {
		return err
	}
	files, err := worktree.Open(options.Directory, options.Files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	config = rest.CopyConfig(config)
	config.QPS = -1 // The workers bound the requests.
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if err := checkRights(ctx, cluster, options.Namespace, options.Part); err != nil {
		return err
	}
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{options.Namespace}, UserAgent: "bellerophon-dev", Logger: options.Logger,
	})
	if err != nil {
		return err
	}
	changed := streams.MapOnReceive(files.Changes(), func(snapshots []worktree.Snapshot) ([]struct{}, error) {
		return []struct{}{{}}, nil
	})
	var named *manifests.Manifests
	if options.Part != ControllerPart {
		err := client.Add(manager, client.Options{
			Namespace: options.Namespace, Application: options.Application, Debug: options.Debug,
			Read:     func() ([]byte, error) { return project.Read(options.Directory) },
			Snapshot: files.Snapshot, Changes: changed, Show: options.Show,
		})
		if err != nil {
			return err
		}
	}
	if options.Part != ClientPart {
		if named, err = addController(manager, config, cluster, files, changed, options); err != nil {
			return err
		}
	}
	if err := manager.Run(ctx); err != nil {
		return err
	}
	if options.Keep || options.Part == ControllerPart {
		return nil
	}
	ending, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cleanUpTime, fmt.Errorf("not done after %v", cleanUpTime))
	defer cancel()
	options.Say("deleting what was made for " + options.Application)
	return cleanUp(ending, cluster, named, options.Namespace, options.Application)
}

// addController adds the controller to the manager.
func addController(manager *controller.Manager, config *rest.Config, cluster kubernetes.Interface, files *worktree.Project, changed streams.Stream[struct{}], options Options) (*manifests.Manifests, error) {
	containers, err := container.New(config, cluster)
	if err != nil {
		return nil, err
	}
	forwards, err := forward.New(config, forward.Options{Logger: options.Logger})
	if err != nil {
		return nil, err
	}
	if err := manager.AddRunnable(controller.Runnable{Name: "forwards", Run: forwards.Run}); err != nil {
		return nil, err
	}
	objects := &signal.Signal{}
	named, err := manifests.New(manager, options.Namespace, options.Application, options.Logger, objects.Send)
	if err != nil {
		return nil, err
	}
	_, err = loop.New(manager, loop.Options{
		Namespace: options.Namespace, Application: options.Application,
		Project: files, Containers: containers, Ports: forwards, Manifests: named,
		Changes: streams.Merge(changed, objects.Stream(), forwards.Changes()),
		Output:  options.Output, Logger: options.Logger,
	})
	return named, err
}

// Complete sets the defaults, and checks the options and the devfile. Run does the same. A caller that calls Complete
// first finds mistakes of the project before it asks the cluster for anything.
func (o *Options) Complete() error {
	if o.isComplete {
		return nil
	}
	if o.Part == "" {
		o.Part = BothParts
	}
	if o.Part != BothParts && o.Part != ClientPart && o.Part != ControllerPart {
		return fmt.Errorf("--part is %q; allowed is %s, %s or %s", o.Part, BothParts, ClientPart, ControllerPart)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Show == nil {
		o.Show = func(client.View) {}
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	content, err := project.Read(o.Directory)
	if err != nil {
		return err
	}
	plan, err := project.Parse(content)
	if err != nil {
		return err
	}
	for _, warning := range plan.Warnings {
		o.Say("warning: " + warning)
	}
	if o.Application == "" {
		absolute, err := filepath.Abs(o.Directory)
		if err != nil {
			return fmt.Errorf("find the project %s: %w", o.Directory, err)
		}
		if o.Application = label(plan.Name); o.Application == "" {
			o.Application = label(filepath.Base(absolute))
		}
	}
	if o.Application == "" || o.Application != label(o.Application) {
		return fmt.Errorf("--name is %q; allowed are up to %d lower case letters, digits and -, with a letter first; give a name", o.Application, longest)
	}
	o.isComplete = true
	return nil
}

// longest is how long the name of an application may be. The names of its objects begin with it, and have 63 characters.
const longest = 40

var unnamed = regexp.MustCompile(`[^a-z0-9]+`)

// label returns a name as the objects of an application may have it: a DNS label.
func label(name string) string {
	name = strings.TrimLeft(unnamed.ReplaceAllString(strings.ToLower(name), "-"), "-0123456789")
	return strings.TrimRight(name[:min(len(name), longest)], "-")
}
