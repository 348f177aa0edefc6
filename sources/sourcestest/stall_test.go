package sourcestest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// For a client, the server accepts the request and does not answer. Only the client's own deadline
// ends the request.
func TestAHungRequestEndsWithItsContextAndDoesNothing(t *testing.T) {
	type call func(ctx context.Context, client dynamic.ResourceInterface) error
	for verb, do := range map[string]call{
		"get": func(ctx context.Context, client dynamic.ResourceInterface) error {
			_, err := client.Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"list": func(ctx context.Context, client dynamic.ResourceInterface) error {
			_, err := client.List(ctx, metav1.ListOptions{})
			return err
		},
		"watch": func(ctx context.Context, client dynamic.ResourceInterface) error {
			opened, err := client.Watch(ctx, metav1.ListOptions{})
			if err == nil {
				opened.Stop()
			}
			return err
		},
		"create": func(ctx context.Context, client dynamic.ResourceInterface) error {
			_, err := client.Create(ctx, object("v1", "ConfigMap", "a", "y"), metav1.CreateOptions{})
			return err
		},
		"update": func(ctx context.Context, client dynamic.ResourceInterface) error {
			_, err := client.Update(ctx, object("v1", "ConfigMap", "a", "x", "data.value", "2"), metav1.UpdateOptions{})
			return err
		},
		"patch": func(ctx context.Context, client dynamic.ResourceInterface) error {
			_, err := client.Patch(ctx, "x", types.MergePatchType, []byte(`{"data":{"value":"2"}}`), metav1.PatchOptions{})
			return err
		},
		"delete": func(ctx context.Context, client dynamic.ResourceInterface) error {
			return client.Delete(ctx, "x", metav1.DeleteOptions{})
		},
	} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{{Action: sourcestest.Hang, Verb: verb}}})
				must(t, server.Create(configMap("x", "1")))
				client := api(t, server).Resource(configMaps).Namespace("a")
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := do(ctx, client); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Hour {
					t.Errorf("the request failed with %v after %v", err, time.Since(begin))
				}
				read := configMap("x")
				must(t, server.Get(read))
				if read.Data["value"] != "1" || server.Get(configMap("y")) == nil {
					t.Errorf("the request was executed: %v", read)
				}
				must(t, do(t.Context(), client)) // Only the first request hangs.
			})
		})
	}
}

func TestTheSecondPageOfAListCanHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{{Action: sourcestest.Hang, Verb: "list", Nth: 2}}})
		for _, name := range []string{"a", "b", "c"} {
			must(t, server.Create(configMap(name)))
		}
		client := api(t, server).Resource(configMaps)
		first, err := client.List(t.Context(), metav1.ListOptions{Limit: 2})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err = client.List(ctx, metav1.ListOptions{Limit: 2, Continue: first.GetContinue()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second page: %v", err)
		}
		if hung := server.Counts().Faults[sourcestest.Hang]; hung != 1 {
			t.Errorf("%d requests hung, want 1", hung)
		}
	})
}

// The list after an expired watch can get the same faults as any other request.
func TestTheListAfterAnExpiredWatchCanHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{NoBookmarks: true})
		seen := observe(t, server)
		same(t, "list", seen.emitted(t, time.Second), "ListStart ", "ListEnd ")
		must(t, server.Inject(sourcestest.Fault{Action: sourcestest.Expire}, sourcestest.Fault{Action: sourcestest.Hang, Verb: "list"}))
		must(t, server.Create(configMap("a", "1")))
		pass(t, 10*time.Second)
		if hung := server.Counts().Faults[sourcestest.Hang]; hung != 1 {
			t.Errorf("%d requests hung, want 1", hung)
		}
		seen.stop(t)
	})
}

func TestASilentWatchBringsNothingNotEvenItsEnd(t *testing.T) {
	for name, silence := range map[string]func(t *testing.T, server *sourcestest.Server){
		"by the script": func(t *testing.T, server *sourcestest.Server) {
			must(t, server.Inject(sourcestest.Fault{Action: sourcestest.Silence}))
		},
		"of all":   func(_ *testing.T, server *sourcestest.Server) { server.Silence() },
		"of twice": func(_ *testing.T, server *sourcestest.Server) { server.Silence(); server.Silence() },
		"of late events": func(t *testing.T, server *sourcestest.Server) {
			must(t, server.Inject(sourcestest.Fault{Action: sourcestest.Delay, For: time.Minute, Times: sourcestest.Always}))
			must(t, server.Create(configMap("z")))
			synctest.Wait()
			server.Silence()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, sourcestest.Options{})
				timeout := int64(300)
				opened, err := api(t, server).Resource(configMaps).Watch(t.Context(), metav1.ListOptions{
					AllowWatchBookmarks: true, TimeoutSeconds: &timeout, ResourceVersion: "1",
				})
				must(t, err)
				silence(t, server)
				must(t, server.Create(configMap("a")))
				must(t, server.Create(configMap("b")))
				pass(t, 24*time.Hour)
				select {
				case event, open := <-opened.ResultChan():
					t.Errorf("the watch sent %v (open: %t)", event, open)
				default:
				}
				if counts := server.Counts(); counts.Watches != 1 {
					t.Errorf("%d watches are open, want 1", counts.Watches)
				}
				// The watch still counts as open: only the client, or the network, ends it.
				server.Break()
				if event, open := <-opened.ResultChan(); open {
					t.Errorf("the watch sent %v when its connection broke", event)
				}
			})
		})
	}
}

func TestAWatchThatIsOpenedAfterASilenceBringsWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		seen := observe(t, server)
		seen.emitted(t, time.Millisecond)
		server.Silence()
		must(t, server.Create(configMap("a", "1")))
		same(t, "while it is silent", seen.emitted(t, time.Hour))
		server.Break()
		same(t, "after a new one", seen.emitted(t, time.Minute/2), "Applied a=1")
		seen.stop(t)
	})
}

func TestASilentWatchEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://sourcestest/api/v1/configmaps?watch=true", nil)
		must(t, err)
		answer, err := server.RoundTrip(request)
		must(t, err)
		server.Silence()
		group := lifecycle.New(t.Context())
		group.Go("reader", func(context.Context) error {
			_, err := answer.Body.Read(make([]byte, 1))
			return err
		})
		pass(t, time.Hour)
		must(t, answer.Body.Close())
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Read returned %v", err)
		}
		if open := server.Counts().Watches; open != 0 {
			t.Errorf("%d watches are open", open)
		}
	})
}
