package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

// bug is what is wrong with a contender. One of alter and beside is set.
type bug struct {
	// alter changes its requests.
	alter func(r *http.Request, info *request.RequestInfo) error
	// beside is done by it for each event of a resource, besides what it does anyway.
	resource schema.GroupVersionResource
	beside   func(ctx context.Context, client dynamic.Interface, event watch.Event, object *unstructured.Unstructured)
	// found are the checks that have to fail, and passes some that do not see it.
	found, passes []string
}

var bugs = map[string]bug{
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
	"what was deleted is made again only for show": {
		alter: func() func(*http.Request, *request.RequestInfo) error {
			var made sync.Map
			return func(r *http.Request, info *request.RequestInfo) error {
				if info.Verb != "create" {
					return nil
				}
				return body("configmaps", "", func(fields map[string]any) {
					name, _, _ := unstructured.NestedString(fields, "metadata", "name")
					if _, again := made.LoadOrStore(info.Namespace+"/"+name, true); again {
						query := r.URL.Query()
						query.Set("dryRun", metav1.DryRunAll)
						r.URL.RawQuery = query.Encode()
					}
				})(r, info)
			}
		}(),
		found: []string{"3.4"}, passes: []string{"1.1"},
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
	"lastTransitionTime is that of the write": {
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
	"what belongs to somebody else is taken over": {
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
			for range 8 { // One alone may be too slow on a machine that is busy.
				group.Go("attempts", func(ctx context.Context) error {
					for range 50 {
						if !apierrors.IsInternalError(merge(ctx, client, statefulSets, object, `{}`)) {
							break
						}
					}
					return nil
				})
			}
			_ = group.Wait() // The bugs do not mind failures.
		},
		found: []string{"7.1"}, passes: []string{"1.4"},
	},
}

// merge patches an object, or another one of its name. The bugs do not mind failures.
func merge(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, object *unstructured.Unstructured, patch string, subresources ...string) error {
	_, err := client.Resource(resource).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// body changes the body of each write of a resource.
func body(resource, subresource string, change func(map[string]any)) func(*http.Request, *request.RequestInfo) error {
	return func(r *http.Request, info *request.RequestInfo) error {
		if info.Resource != resource || info.Subresource != subresource || !slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
			return nil
		}
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		fields := map[string]any{}
		if info.Verb == "patch" {
			err = json.Unmarshal(sent, &fields)
		} else { // It may be protobuf.
			object, kind, e := scheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil)
			if e != nil {
				return e
			}
			object.GetObjectKind().SetGroupVersionKind(*kind)
			sent, e = json.Marshal(object)
			err = errors.Join(e, json.Unmarshal(sent, &fields))
			r.Header.Set("Content-Type", "application/json")
		}
		if err != nil {
			return err
		}
		change(fields)
		if sent, err = json.Marshal(fields); err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
		r.Header.Del("Content-Length")
		return nil
	}
}

// patchBody changes that of patches only.
func patchBody(resource, subresource string, change func(map[string]any)) func(*http.Request, *request.RequestInfo) error {
	alter := body(resource, subresource, change)
	return func(r *http.Request, info *request.RequestInfo) error {
		if info.Verb != "patch" {
			return nil
		}
		return alter(r, info)
	}
}

// broken is a contender with a bug besides.
type broken struct {
	Process
	group *lifecycle.Group
}

func (b *broken) Stop() (time.Duration, error) {
	b.group.Stop()
	_ = b.group.Wait() // The bugs do not mind failures.
	return b.Process.Stop()
}

func (b bug) start(ctx context.Context, kubeconfig string, process Process) (Process, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	group := lifecycle.New(context.WithoutCancel(ctx))
	group.Go("bug", func(ctx context.Context) error {
		watcher, err := client.Resource(b.resource).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				b.beside(ctx, client, event, object)
			}
		}
		return nil
	})
	return &broken{process, group}, nil
}

func TestTheSuiteFindsWhatIsWrongWithAContender(t *testing.T) {
	chosen, err := contender.Named("bellerophon")
	if err != nil {
		t.Fatal(err)
	}
	program, err := chosen[0].Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			output := filepath.Join(t.TempDir(), "output.log")
			subject := Subject{Name: name, Start: func(ctx context.Context, kubeconfig string) (Process, error) {
				process, err := program.Start(context.WithoutCancel(ctx), contender.Settings{Kubeconfig: kubeconfig, Output: output})
				if err != nil || bug.beside == nil {
					return process, err
				}
				return bug.start(ctx, kubeconfig, process)
			}}
			report, err := Run(t.Context(), clustertest.Shared(t).AdminConfig(), subject, Options{
				Only: slices.Concat(bug.found, bug.passes), Patience: 5 * time.Second, Quiet: 1500 * time.Millisecond, alter: bug.alter,
			})
			if err != nil {
				t.Fatal(err)
			}
			if failed := report.Failed(); !slices.Equal(failed, bug.found) {
				t.Errorf("the checks %v failed, want %v", failed, bug.found)
			}
			if err := report.Err(); err != nil {
				t.Log(strings.ReplaceAll(err.Error(), "\n", "\n\t"))
			}
		})
	}
}
