package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// exampleManager returns a manager over an API server in memory. A program of your own takes the
// configuration of its cluster instead.
func exampleManager() (*controller.Manager, *sourcestest.Server) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		panic(err)
	}
	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	return manager, server
}

// filesNamed returns the name of the object that each file configures. A list has no files at its ends.
func filesNamed(events []sources.FileEvent) (names []types.NamespacedName, err error) {
	for _, event := range events {
		if event.Path != "" {
			names = append(names, types.NamespacedName{Namespace: "default", Name: event.Path})
		}
	}
	return names, nil
}

// exampleFolder returns a folder with one file, which write replaces.
func exampleFolder() (folder string, write func(content string)) {
	folder, err := os.MkdirTemp("", "heroes")
	if err != nil {
		panic(err)
	}
	write = func(content string) {
		draft := filepath.Join(folder, "draft.tmp")
		if err := os.WriteFile(draft, []byte(content), 0o600); err != nil {
			panic(err)
		}
		if err := os.Rename(draft, filepath.Join(folder, "pegasus")); err != nil { // No reader sees half of it.
			panic(err)
		}
	}
	write("a horse")
	return folder, write
}

// The files of a folder feed a controller. It keeps a ConfigMap with the content of each file.
func ExampleFrom_folder() {
	folder, write := exampleFolder()
	defer func() { _ = os.RemoveAll(folder) }()
	files := streams.MapOnReceive(sources.Files(folder, sources.FilesOptions{Ignore: []string{"*.tmp"}}), filesNamed)

	ctx, stop := context.WithCancel(context.Background())
	manager, _ := exampleManager()
	client := manager.Client()
	reconcile := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		content, err := os.ReadFile(filepath.Join(folder, request.Name))
		if err != nil {
			return 0, err
		}
		wanted := &corev1.ConfigMap{Data: map[string]string{"content": string(content)}}
		wanted.Namespace, wanted.Name = request.Namespace, request.Name
		config, err := controller.Get[*corev1.ConfigMap](ctx, client, request.NamespacedName)
		switch {
		case apierrors.IsNotFound(err):
			_, err = controller.Create(ctx, client, wanted)
		case err != nil:
		case maps.Equal(config.Data, wanted.Data):
			return 0, nil
		default:
			changed := config.DeepCopy()
			changed.Data = wanted.Data
			_, err = controller.Patch(ctx, client, changed, controller.MergeFrom(config))
		}
		if err != nil {
			return 0, err
		}
		fmt.Println(request.Name, "is", string(content))
		if string(content) == "a horse" {
			write("a horse with wings")
		} else {
			stop()
		}
		return 0, nil
	}
	// The controller also repairs its ConfigMaps, because it watches them.
	err := manager.Add("heroes", reconcile, controller.For(&corev1.ConfigMap{}), controller.From("folder", files))
	fmt.Println(err, manager.Run(ctx))
	// Output:
	// pegasus is a horse
	// pegasus is a horse with wings
	// <nil> <nil>
}

// A timer feeds a controller: it reconciles one object at each tick, whatever happens in the
// cluster.
func ExampleFrom_timer() {
	ctx, stop := context.WithCancel(context.Background())
	manager, _ := exampleManager()
	checks := streams.MapOnReceive(sources.Interval(10*time.Millisecond), func(ticks []time.Time) ([]types.NamespacedName, error) {
		return []types.NamespacedName{{Namespace: "default", Name: "certificate"}}, nil
	})
	checked := 0
	err := manager.Add("certificates", func(_ context.Context, request operators.Request) (time.Duration, error) {
		if checked++; checked <= 3 {
			fmt.Println("check", checked, "of", request)
		} else {
			stop()
		}
		return 0, nil
	}, controller.For(&corev1.Secret{}), controller.From("timer", checks))
	fmt.Println(err, manager.Run(ctx))
	// Output:
	// check 1 of default/certificate
	// check 2 of default/certificate
	// check 3 of default/certificate
	// <nil> <nil>
}

// A Go channel feeds a controller, such as one that a webhook or a client of a message bus sends to.
func ExampleFrom_channel() {
	ctx, stop := context.WithCancel(context.Background())
	manager, _ := exampleManager()
	asked := make(chan types.NamespacedName, 1)
	err := manager.Add("heroes", func(_ context.Context, request operators.Request) (time.Duration, error) {
		fmt.Println("asked for", request)
		stop()
		return 0, nil
	}, controller.For(&corev1.ConfigMap{}), controller.From("webhook", sources.Channel(asked)))

	asked <- types.NamespacedName{Namespace: "default", Name: "pegasus"}
	fmt.Println(err, manager.Run(ctx))
	// Output:
	// asked for default/pegasus
	// <nil> <nil>
}

// Share watches a folder once for two controllers. The one that joins later gets the files that are
// there, and then both get each change.
func ExampleFrom_sharedFolder() {
	folder, _ := exampleFolder()
	defer func() { _ = os.RemoveAll(folder) }()
	watched := streams.MapOnReceive(sources.Files(folder, sources.FilesOptions{Ignore: []string{"*.tmp"}}), filesNamed)
	shared := streams.Share(watched, streams.ShareOptions[types.NamespacedName, map[types.NamespacedName]bool]{
		Fold: func(known map[types.NamespacedName]bool, batch []types.NamespacedName) map[types.NamespacedName]bool {
			if known == nil {
				known = map[types.NamespacedName]bool{}
			}
			for _, name := range batch {
				known[name] = true
			}
			return known
		},
		Replay: func(known map[types.NamespacedName]bool) []types.NamespacedName {
			return slices.Collect(maps.Keys(known))
		},
	})

	ctx, stop := context.WithCancel(context.Background())
	manager, _ := exampleManager()
	group := lifecycle.New(ctx)
	reconciled := make(chan string)
	add := func(name string, kind streams.Object) {
		err := manager.Add(name, func(ctx context.Context, request operators.Request) (time.Duration, error) {
			select {
			case reconciled <- name + " of " + request.Name:
			case <-ctx.Done():
			}
			return 0, nil
		}, controller.For(kind), controller.From("folder", shared))
		if err != nil {
			panic(err)
		}
	}
	add("configs", &corev1.ConfigMap{})
	group.Go("manager", manager.Run)
	fmt.Println(<-reconciled)
	add("secrets", &corev1.Secret{})
	fmt.Println(<-reconciled)
	stop()
	fmt.Println(group.Wait())
	// Output:
	// configs of pegasus
	// secrets of pegasus
	// <nil>
}

// Two followers read one shared stream of the events of a manager. The one that begins later gets a
// snapshot: the last event of each object.
func ExampleManager_Events() {
	var t *testing.T // the t of your test
	twoFollowersShareTheEvents(t)
}

func twoFollowersShareTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, server := exampleManager()
		shared := streams.Share(manager.Events(), streams.ShareOptions[streams.Event, map[streams.Key]streams.Event]{
			Fold: func(last map[streams.Key]streams.Event, batch []streams.Event) map[streams.Key]streams.Event {
				if last == nil {
					last = map[streams.Key]streams.Event{}
				}
				for _, event := range batch {
					if event.Object != nil { // The ends of lists and bookmarks have none.
						last[event.Key] = event
					}
				}
				return last
			},
			Replay: func(last map[streams.Key]streams.Event) []streams.Event { return slices.Collect(maps.Values(last)) },
		})
		followers := lifecycle.New(t.Context())
		follow := func(seen *[]string) {
			followers.Go("follower", func(ctx context.Context) error {
				return streams.ForEach(ctx, shared, func(batch []streams.Event) {
					for _, event := range batch {
						if event.Object != nil {
							*seen = append(*seen, event.Type.String()+" "+event.Key.Name)
						}
					}
				}, func(error) {})
			})
			synctest.Wait()
		}

		var first, second []string
		follow(&first)
		err := manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{}))
		err = errors.Join(err, server.Create(config("pegasus")))
		running := lifecycle.New(t.Context())
		running.Go("manager", manager.Run)
		<-time.After(time.Second)
		follow(&second)
		err = errors.Join(err, server.Create(config("arion")))
		<-time.After(time.Second)
		running.Stop()
		err = errors.Join(err, running.Wait(), followers.Wait()) // The streams of a manager end with it.

		want := []string{"Listed pegasus", "Applied arion"}
		if err != nil || !slices.Equal(first, want) || !slices.Equal(second, want) {
			t.Errorf("the first saw %v and the second %v, want %v: %v", first, second, want, err)
		}
	})
}
