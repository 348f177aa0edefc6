package conformance

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"
)

// bug describes a seeded bug of a contender. Exactly one of alter, beside and instead is set.
type bug struct {
	// alter changes the contender's requests.
	alter func(r *http.Request, info *request.RequestInfo) error
	// beside runs for each event of a resource, in addition to the contender's own work.
	resource schema.GroupVersionResource
	beside   func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured)
	// instead replaces the n-th start of the contender, counted from 0.
	instead func(t *testing.T, n int, start func() (Process, error)) (Process, error)
	// found lists the checks that have to fail. passes lists some checks that do not detect the
	// bug.
	found, passes []string
}

// bugs returns new bugs with each call, because some count calls or events.
func bugs() map[string]bug {
	return map[string]bug{
		"a field is left out": {
			alter: body("services", "", func(fields map[string]any) {
				unstructured.RemoveNestedField(fields, "spec", "publishNotReadyAddresses")
			}),
			found: []string{"1.1"}, passes: []string{"8.1"},
		},
		"a field is set that is not in the contract": {
			alter: body("statefulsets", "", func(fields map[string]any) {
				_ = unstructured.SetNestedField(fields, int64(5), "spec", "minReadySeconds")
			}),
			found: []string{"1.3"},
		},
		"the hash of the settings is wrong": {
			alter: body("statefulsets", "", func(fields map[string]any) {
				_ = unstructured.SetNestedField(fields, "0123456789abcdef", "spec", "template", "metadata", "annotations", "stable.simple-bellerophon.io/config")
			}),
			found: []string{"1.3"},
		},
		"changes of the template are not written": {
			alter: patchBody("statefulsets", "", func(fields map[string]any) { unstructured.RemoveNestedField(fields, "spec", "template") }),
			found: []string{"2.1", "3.3"}, passes: []string{"1.3"},
		},
		"a changed selector stays": {
			alter: patchBody("services", "", func(fields map[string]any) { unstructured.RemoveNestedField(fields, "spec", "selector") }),
			found: []string{"3.1"}, passes: []string{"1.1"},
		},
		"deleted children are recreated only as a dry run": {
			alter: func() func(*http.Request, *request.RequestInfo) error {
				var made sync.Map
				return func(r *http.Request, info *request.RequestInfo) error {
					if info.Verb != "create" {
						return nil
					}
					return body("configmaps", "", func(fields map[string]any) {
						name, _, _ := unstructured.NestedString(fields, "metadata", "name")
						if _, again := made.LoadOrStore(info.Namespace+"/"+name, true); again {
							asDryRun(r)
						}
					})(r, info)
				}
			}(),
			found: []string{"3.4", "4.3", "7.2"}, passes: []string{"1.1"},
		},
		"labels of others are removed": {
			resource: configMaps,
			beside: func(ctx context.Context, client dynamic.Interface, _ watch.Event, object *unstructured.Unstructured) {
				if object.GetLabels()["theirs"] != "" {
					_ = merge(ctx, client, configMaps, object, `{"metadata":{"labels":{"theirs":null}}}`)
				}
			},
			found: []string{"3.2"}, passes: []string{"1.3"},
		},
		"a finalizer is set": {
			resource: sheroes,
			beside: func(ctx context.Context, client dynamic.Interface, _ watch.Event, object *unstructured.Unstructured) {
				switch {
				case object.GetDeletionTimestamp() != nil:
					_ = merge(ctx, client, sheroes, object, `{"metadata":{"finalizers":null}}`)
				case len(object.GetFinalizers()) == 0:
					_ = merge(ctx, client, sheroes, object, `{"metadata":{"finalizers":["example.com/ours"]}}`)
				}
			},
			found: []string{"1.1", "1.2", "4.1"}, passes: []string{"1.3"},
		},
		"the status is written again for each event, though nothing changes": {
			resource: sheroes,
			beside: func(ctx context.Context, client dynamic.Interface, _ watch.Event, object *unstructured.Unstructured) {
				_ = merge(ctx, client, sheroes, object, `{}`, "status")
			},
			found: []string{"5.2", "5.4"}, passes: []string{"1.1"},
		},
		"lastTransitionTime is the time of the write": {
			alter: patchBody("sheroes", "status", func() func(map[string]any) {
				began := time.Now()
				var seconds atomic.Int64
				return func(fields map[string]any) {
					at := began.Add(time.Duration(seconds.Add(1)) * time.Second).UTC().Format(time.RFC3339)
					conditions, _, _ := unstructured.NestedSlice(fields, "status", "conditions")
					for i := range conditions {
						_ = unstructured.SetNestedField(conditions[i].(map[string]any), at, "lastTransitionTime")
					}
					if len(conditions) > 0 {
						_ = unstructured.SetNestedSlice(fields, conditions, "status", "conditions")
					}
				}
			}()),
			found: []string{"2.1"}, passes: []string{"8.1"},
		},
		"children of other owners are taken over": {
			resource: sheroes,
			beside: func(ctx context.Context, client dynamic.Interface, _ watch.Event, object *unstructured.Unstructured) {
				_ = merge(ctx, client, configMaps, object, `{"data":{"peers_service":"`+object.GetName()+`"}}`)
			},
			found: []string{"6.1", "6.2"}, passes: []string{"1.1"},
		},
		"children are created again although their owner goes": {
			resource: configMaps,
			beside: func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured) {
				if event.Type == watch.Deleted {
					object.SetResourceVersion("")
					_, _ = client.Resource(configMaps).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
				}
			},
			found: []string{"4.2"}, passes: []string{"1.1"},
		},
		"a write that fails is tried again at once": {
			resource: sheroes,
			beside: func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured) {
				if event.Type != watch.Added {
					return
				}
				group := lifecycle.New(ctx)
				for range 8 { // One goroutine may be too slow on a busy machine.
					group.Go("attempts", func(ctx context.Context) error {
						for range 50 {
							if !apierrors.IsInternalError(merge(ctx, client, statefulSets, object, `{}`)) {
								break
							}
						}
						return nil
					})
				}
				_ = group.Wait() // The bugs ignore failures.
			},
			found: []string{"7.1"}, passes: []string{"1.4"},
		},
		"what the API server fills in is not used": {
			alter: body("configmaps", "", func(fields map[string]any) {
				if name, _, _ := unstructured.NestedString(fields, "data", "winged_horse_name"); name == "pegasus" {
					_ = unstructured.SetNestedField(fields, "", "data", "winged_horse_name")
				}
			}),
			found: []string{"1.4"}, passes: []string{"1.1"},
		},
		"where there are many, children are written twice": {
			resource: configMaps,
			beside: func() func(context.Context, dynamic.Interface, watch.Event, *unstructured.Unstructured) {
				seen := map[string]int{}
				return func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured) {
					if event.Type != watch.Added {
						return
					}
					if seen[object.GetNamespace()]++; seen[object.GetNamespace()] > 10 {
						_ = merge(ctx, client, configMaps, object, `{}`)
					}
				}
			}(),
			found: []string{"1.5"}, passes: []string{"1.2"},
		},
		"the status is written at the end alone": {
			alter: func(r *http.Request, info *request.RequestInfo) error {
				return patchBody("sheroes", "status", func(fields map[string]any) {
					if isProgressing(fields) {
						asDryRun(r)
					}
				})(r, info)
			},
			found: []string{"1.6"}, passes: []string{"1.1"},
		},
		"all objects share one progressing status a second": {
			alter: func() func(*http.Request, *request.RequestInfo) error {
				limiter := flowcontrol.NewTokenBucketRateLimiter(1, 5)
				return func(r *http.Request, info *request.RequestInfo) error {
					return patchBody("sheroes", "status", func(fields map[string]any) {
						if isProgressing(fields) && !limiter.TryAccept() {
							asDryRun(r)
						}
					})(r, info)
				}
			}(),
			found: []string{"1.7"}, passes: []string{"1.1"},
		},
		"a client's rate is limited": {
			alter: func() func(*http.Request, *request.RequestInfo) error {
				limiter := flowcontrol.NewTokenBucketRateLimiter(20, 30) // the default of controller-runtime
				return func(r *http.Request, info *request.RequestInfo) error {
					if !slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
						return nil
					}
					return limiter.Wait(r.Context())
				}
			}(),
			found: []string{"8.2"}, passes: []string{"1.1"},
		},
		"each change writes all children": {
			resource: sheroes,
			beside: func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured) {
				if event.Type == watch.Modified && object.GetGeneration() > 1 {
					_ = merge(ctx, client, services, object, `{}`)
				}
			},
			found: []string{"2.2"}, passes: []string{"2.1"},
		},
		"the last of many changes is lost": {
			alter: patchBody("configmaps", "", func(fields map[string]any) {
				if name, _, _ := unstructured.NestedString(fields, "data", "winged_horse_name"); name == "horse 19" {
					_ = unstructured.SetNestedField(fields, "horse 18", "data", "winged_horse_name")
				}
			}),
			found: []string{"2.3"}, passes: []string{"2.1"},
		},
		"changes while the process is down are missed": {
			instead: func(_ *testing.T, n int, start func() (Process, error)) (Process, error) {
				if n == 0 {
					return start()
				}
				return idle{}, nil
			},
			found: []string{"2.4"}, passes: []string{"1.1"},
		},
		"the items of a list are not compared": {
			alter: patchBody("services", "", func(fields map[string]any) { unstructured.RemoveNestedField(fields, "spec", "ports") }),
			found: []string{"3.1", "3.5", "3.6"}, passes: []string{"1.1"},
		},
		"something is written from time to time": {
			resource: sheroes,
			beside: func(ctx context.Context, client dynamic.Interface, _ watch.Event, _ *unstructured.Unstructured) {
				// The interval is a little longer than the quiet time after which the suite
				// continues.
				again := time.NewTicker(1700 * time.Millisecond)
				defer again.Stop()
				for {
					select {
					case <-again.C:
						// All objects: one alone could be of an earlier check, and last.
						list, err := client.Resource(sheroes).List(ctx, metav1.ListOptions{})
						if err != nil {
							return
						}
						for i := range list.Items {
							_ = merge(ctx, client, configMaps, &list.Items[i], `{}`)
						}
					case <-ctx.Done():
						return
					}
				}
			},
			found: []string{"5.1"}, passes: []string{"8.1"},
		},
		"after a list, every child is written again": {
			resource: configMaps,
			beside: func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured) {
				if event.Type == watch.Added {
					_ = merge(ctx, client, configMaps, object, `{}`)
				}
			},
			found: []string{"5.3"}, passes: []string{"5.1"},
		},
		"a watch that ended is not begun again": {
			alter: func() func(*http.Request, *request.RequestInfo) error {
				var watches atomic.Int64
				return func(_ *http.Request, info *request.RequestInfo) error {
					begins := info.Resource == sheroes.Resource && (info.Verb == "watch" || info.Verb == "list")
					if begins && watches.Load() > 0 {
						return errors.New("once is enough")
					}
					if begins && info.Verb == "watch" {
						watches.Add(1)
					}
					return nil
				}
			}(),
			found: []string{"7.3"}, passes: []string{"1.1"},
		},
		"the metrics are an HTML page": {
			instead: func(t *testing.T, _ int, start func() (Process, error)) (Process, error) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, "<html><body>42</body></html>\n")
				}))
				t.Cleanup(server.Close)
				process, err := start()
				return page{process, server.URL}, err
			},
			found: []string{"8.1"}, passes: []string{"1.1"},
		},
		"SIGTERM is ignored": {
			instead: func(_ *testing.T, _ int, start func() (Process, error)) (Process, error) {
				process, err := start()
				return deaf{process}, err
			},
			found: []string{"8.3"}, passes: []string{"8.1"},
		},
	}
}

// idle is a process that does nothing.
type idle struct{}

func (idle) Ready(context.Context) error  { return nil }
func (idle) MetricsURL() string           { return "" }
func (idle) Stop() (time.Duration, error) { return 0, nil }

// page is a process with other metrics.
type page struct {
	Process
	url string
}

func (p page) MetricsURL() string { return p.url }

// deaf is a process whose Stop reports the same error as a contender.Process that needed force.
// The tests of contender check that error, because it takes ten seconds.
type deaf struct{ Process }

func (d deaf) Stop() (time.Duration, error) {
	_, err := d.Process.Stop()
	return contender.StopGrace, errors.Join(errors.New("it had to be killed"), err)
}

// merge patches an object, or another object of the same name. The bugs ignore failures.
func merge(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, object *unstructured.Unstructured, patch string, subresources ...string) error {
	_, err := client.Resource(resource).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}
