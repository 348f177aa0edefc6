package controller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// TestMain runs the tests, or a replica of one of them. It turns client-go's error handlers off. They slow down by the time since the last error,
// which means nothing between synctest bubbles, as each has a clock of its own.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	if encoded := os.Getenv(replicaVariable); encoded != "" {
		if err := runReplica(encoded); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clustertest.Main(m)
}

// transport is an API server without a network: it maps a request to its answer, or to nil.
type transport func(*http.Request) *http.Response

// RoundTrip returns the answer. Without one, it blocks until the context of the request ends.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if answer := t(request); answer != nil {
		answer.Request = request
		return answer, nil
	}
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func silent(*http.Request) *http.Response { return nil }

// says returns an answer with an object.
func says(code int, object any) *http.Response {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return body(code, bytes.NewReader(encoded))
}

func body(code int, content io.Reader) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(content),
	}
}

func refusal(code int, reason metav1.StatusReason, message string) *http.Response {
	return says(code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func nothing(context.Context, operators.Request) (time.Duration, error) { return 0, nil }

// manager creates a manager that talks to the given API server.
func manager(t *testing.T, api transport, options controller.Options) *controller.Manager {
	t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	made, err := controller.NewManager(&rest.Config{Transport: api}, scheme.Scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// add adds a controller of pods, for tests that need any controller.
func add(t *testing.T, to *controller.Manager, reconcile operators.Reconciler) {
	t.Helper()
	if err := to.Add("pods", reconcile, controller.For(&corev1.Pod{})); err != nil {
		t.Fatal(err)
	}
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: version},
	}
}

// watched answers a watch: it sends the pods first, if the request asks for that, and then nothing.
func watched(request *http.Request, version string, pods ...*corev1.Pod) *http.Response {
	read, write := io.Pipe()
	var frames bytes.Buffer
	send := func(kind string, object runtime.Object) {
		frame, err := json.Marshal(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Object: object}})
		if err != nil {
			panic(err)
		}
		frames.Write(append(frame, '\n'))
	}
	if request.URL.Query().Get("sendInitialEvents") == "true" {
		for _, pod := range pods {
			send("ADDED", pod)
		}
		end := pod("", version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		send("BOOKMARK", end)
	}
	context.AfterFunc(request.Context(), func() { write.CloseWithError(request.Context().Err()) })
	return body(http.StatusOK, io.MultiReader(&frames, read))
}

// cached returns an object of the cache, and whether there is one.
func cached[T streams.Object](c *controller.Client, name types.NamespacedName) (object T, found bool) {
	object, err := controller.Get[T](context.Background(), c, name)
	if controller.IgnoreNotFound(err) != nil {
		panic(err)
	}
	return object, err == nil
}

// listed returns objects of the cache.
func listed[T streams.Object](c *controller.Client, options ...controller.ReadOption) []T {
	objects, err := controller.List[T](context.Background(), c, options...)
	if err != nil {
		panic(err)
	}
	return objects
}
