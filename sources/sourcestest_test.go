package sources_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestAChannelIsASource(t *testing.T) {
	sourcestest.TestSourceInVirtualTime(t, func(*testing.T) sourcestest.Source[int] {
		values := make(chan int)
		return sourcestest.Source[int]{
			Stream: sources.Channel(values),
			Emit: func(ctx context.Context, from, to int) error {
				for i := from; i < to; i++ {
					select {
					case values <- i:
					case <-ctx.Done():
						return nil
					}
				}
				return nil
			},
			Complete: func(got []int, from, to int) error { // Two observations share the values.
				seen := map[int]bool{}
				for _, value := range got {
					seen[value] = true
				}
				for i := from; i < to; i++ {
					if !seen[i] {
						return fmt.Errorf("%d is missing", i)
					}
				}
				return nil
			},
			Blocks: true, Splits: true,
		}
	})
}

func TestAnIntervalIsASource(t *testing.T) {
	sourcestest.TestSourceInVirtualTime(t, func(*testing.T) sourcestest.Source[time.Time] {
		return sourcestest.Source[time.Time]{
			Stream: sources.Interval(time.Millisecond),
			Complete: func(ticks []time.Time, from, to int) error {
				for i := 1; i < len(ticks); i++ {
					if passed := ticks[i].Sub(ticks[i-1]); passed <= 0 || passed%time.Millisecond != 0 {
						return fmt.Errorf("tick %d follows after %v", i, passed)
					}
				}
				if len(ticks) < to-from {
					return fmt.Errorf("%d ticks are missing", to-from-len(ticks))
				}
				return nil
			},
		}
	})
}

func TestFilesAreASource(t *testing.T) {
	sourcestest.TestSource(t, func(t *testing.T) sourcestest.Source[sources.FileEvent] {
		root := filepath.Join(t.TempDir(), "root")
		folder := func() string { return filepath.Join(root, "files") }
		if err := os.MkdirAll(folder(), 0o755); err != nil {
			t.Fatal(err)
		}
		return sourcestest.Source[sources.FileEvent]{
			Stream: sources.Files(root, sources.FilesOptions{}),
			Emit: func(_ context.Context, from, to int) error {
				for i := from; i < to; i++ {
					if err := os.WriteFile(filepath.Join(folder(), fmt.Sprint(i)), nil, 0o600); err != nil {
						return err
					}
				}
				return nil
			},
			Complete: func(events []sources.FileEvent, from, to int) error {
				there := map[string]bool{}
				for _, event := range events {
					switch event.Type {
					case sources.FileListed, sources.FileCreated, sources.FileModified:
						there[event.Path] = true
					case sources.FileRemoved:
						delete(there, event.Path)
					}
				}
				for i := from; i < to; i++ {
					if !there[fmt.Sprintf("files/%d", i)] {
						return fmt.Errorf("file %d is missing", i)
					}
				}
				return nil
			},
			Fail: func() (func(), error) {
				if err := os.Rename(root, root+"-away"); err != nil {
					t.Error(err)
				}
				return func() {
					if err := os.Rename(root+"-away", root); err != nil {
						t.Error(err)
					}
				}, fs.ErrNotExist
			},
		}
	})
}

func TestAWatchIsASource(t *testing.T) {
	sourcestest.TestSourceInVirtualTime(t, func(t *testing.T) sourcestest.Source[streams.Event] {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		kind, err := sources.KindOf(scheme.Scheme, &corev1.ConfigMap{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kind.Client(server.Config(), &http.Client{Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		name := func(i int) string { return fmt.Sprintf("map-%d", i) }
		return sourcestest.Source[streams.Event]{
			Stream: sources.Watch(client, kind, sources.WatchOptions{}),
			Emit: func(_ context.Context, from, to int) error {
				for i := from; i < to; i++ {
					if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name(i)}}); err != nil {
						return err
					}
				}
				return nil
			},
			Complete: func(events []streams.Event, from, to int) error {
				there, last := map[string]bool{}, ""
				for _, event := range events {
					switch event.Type {
					case streams.Applied:
						if last != "" && !streams.IsOlderVersion(last, event.ResourceVersion) {
							return fmt.Errorf("version %s follows version %s", event.ResourceVersion, last)
						}
						last = event.ResourceVersion
						there[event.Key.Name] = true
					case streams.Listed:
						there[event.Key.Name] = true
					}
				}
				for i := from; i < to; i++ {
					if !there[name(i)] {
						return errors.New(name(i) + " is missing")
					}
				}
				return nil
			},
			Fail: func() (func(), error) {
				if err := server.Inject(sourcestest.Fault{Action: sourcestest.Refuse, Code: http.StatusForbidden}); err != nil {
					t.Error(err)
				}
				server.Break()
				return func() {}, nil
			},
		}
	})
}
