// Package client is the client of `bellerophon dev`. It keeps the Specs of an application as the
// devfile and the files of the project are, and shows the Status to the user. It writes nothing but
// the ConfigMap of Specs.
package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Name is the name of the controller in logs and metrics.
const Name = "dev-client"

// Options configures a client. All fields are required, except for Debug.
type Options struct {
	Namespace   string
	Application string // the name of the ConfigMap of Specs
	Debug       bool

	// Read returns the flattened devfile as it is now: see project.Read.
	Read func() ([]byte, error)

	// Snapshot returns the files as they were last seen, and Changes has an item for each change of them.
	Snapshot func() worktree.Snapshot
	Changes  streams.Stream[struct{}]

	// Show is called for each change of what the user should see, from one goroutine.
	Show func(View)
}

// View is what the user should see.
type View struct {
	Problem error // why the Specs are not as the project is: a devfile with mistakes, or a write that failed
	Files   contract.Files
	Status  contract.Status
}

// IsInSync reports whether the pod has the files of the project.
func (v View) IsInSync() bool { return v.Status.Sync.Root != "" && v.Status.Sync.Root == v.Files.Root }

// client is the reconciler of the Specs. Its fields belong to the reconciler, which runs once at a time.
type client struct {
	options Options
	cluster *controller.Client
	devfile string        // the last one without mistakes
	sources worktree.Tree // the files that the last devfile may have been read from
	again   time.Time     // when to read the devfile once more; zero if not
	mistake error         // of the current devfile
	shown   View
}

// Add adds the client of an application to a manager.
func Add(manager *controller.Manager, options Options) error {
	c := &client{options: options, cluster: manager.Client()}
	key := func() []types.NamespacedName { return []types.NamespacedName{c.key(options.Application)} }
	changes := streams.MapOnReceive(options.Changes, func([]struct{}) ([]types.NamespacedName, error) { return key(), nil })
	err := manager.Add(Name, c.reconcile,
		controller.Watches(&corev1.ConfigMap{}, func(streams.Object) []types.NamespacedName { return key() },
			controller.LabelSelector(contract.ApplicationLabel+"="+options.Application)),
		controller.From("files", changes),
		controller.MaxConcurrentReconciles(1),
	)
	if err != nil {
		return fmt.Errorf("add the client of %s: %w", options.Application, err)
	}
	return nil
}

func (c *client) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.options.Namespace, Name: name}
}

// reconcile makes the Specs what the project is, and shows the Status.
func (c *client) reconcile(ctx context.Context, _ operators.Request) (time.Duration, error) {
	seen := c.options.Snapshot()
	if !seen.Listed {
		return 0, nil // The end of the list is a change.
	}
	wait := c.read(seen.Tree)
	view := View{Problem: c.mistake, Files: contract.Files{Root: seen.Tree.Root(), Count: len(seen.Tree), Bytes: seen.Tree.Bytes()}}
	var failed error
	if c.devfile != "" {
		failed = c.write(ctx, contract.Specs{Devfile: c.devfile, Files: view.Files, Options: contract.SpecsOptions{Debug: c.options.Debug}})
	}
	status, err := controller.Get[*corev1.ConfigMap](ctx, c.cluster, c.key(contract.StatusName(c.options.Application)))
	if err == nil {
		view.Status, err = contract.StatusOf(status)
	}
	if err := errors.Join(failed, controller.IgnoreNotFound(err)); err != nil {
		view.Problem = errors.Join(view.Problem, err)
	}
	if !reflect.DeepEqual(view, c.shown) {
		c.shown = view
		c.options.Show(view)
	}
	return wait, failed
}

// settle is how long after a change the devfile is read once more. An editor may save it while it is read, and leave the
// files as they were before, which is no change.
const settle = time.Second

// read reads the devfile again if a file has changed that it may be made of. It returns the time until the next read,
// or 0 if only a change makes one. A devfile with mistakes changes nothing.
func (c *client) read(tree worktree.Tree) time.Duration {
	sources := worktree.Tree{}
	for name, file := range tree {
		switch path.Ext(name) {
		case ".yaml", ".yml", ".json":
			sources[name] = file
		}
	}
	switch {
	case c.sources == nil || !maps.Equal(sources, c.sources):
		c.sources, c.again = sources, time.Now().Add(settle)
	case c.again.IsZero():
		return 0
	case time.Now().Before(c.again):
		return time.Until(c.again)
	default:
		c.again = time.Time{}
	}
	content, err := c.options.Read()
	if c.mistake = err; err == nil {
		c.devfile = string(content)
	}
	if c.again.IsZero() {
		return 0
	}
	return time.Until(c.again)
}

// write writes the Specs if they differ.
func (c *client) write(ctx context.Context, specs contract.Specs) error {
	held, err := controller.Get[*corev1.ConfigMap](ctx, c.cluster, c.key(c.options.Application))
	if controller.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the Specs of %s: %w", c.options.Application, err)
	}
	if err == nil {
		if has, err := contract.SpecsOf(held); err == nil && has == specs && contract.IsSpecs(held) {
			return nil
		}
	}
	if err != nil {
		if err := c.checkOwner(ctx); err != nil {
			return err
		}
	}
	want, err := specs.ConfigMap(c.options.Namespace, c.options.Application)
	if err != nil {
		return err
	}
	if _, err := controller.Apply[*corev1.ConfigMap](ctx, c.cluster, controller.ApplyConfigurationOf(want), controller.Force()); err != nil {
		return fmt.Errorf("write the Specs of %s: %w", c.options.Application, err)
	}
	return nil
}

// checkOwner fails if another program's ConfigMap has the name of the Specs. The cache does not hold it, because it lacks
// the label. Specs that have lost the label are no such ConfigMap.
func (c *client) checkOwner(ctx context.Context) error {
	held, err := controller.GetLive[*corev1.ConfigMap](ctx, c.cluster, c.key(c.options.Application))
	if err != nil {
		if controller.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("read the Specs of %s: %w", c.options.Application, err)
	}
	if _, err := contract.SpecsOf(held); err != nil && !contract.IsSpecs(held) {
		return fmt.Errorf("write the Specs of %s: another program has a ConfigMap of this name; give another name with --name", c.options.Application)
	}
	return nil
}
