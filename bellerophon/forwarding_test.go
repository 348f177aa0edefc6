package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// forwarding is an API server that lists the pods of an operator and forwards ports to them, as kubelets do.
type forwarding struct {
	t          *testing.T
	kubeconfig string
	group      *lifecycle.Group // of connections
	objects    *sourcestest.Server

	mu   sync.Mutex
	pods []*operatorPod
}

// operatorPod is a pod whose only process is a manager, which reconciles ConfigMaps.
type operatorPod struct {
	pod   corev1.Pod
	port  int
	group *lifecycle.Group
	hangs bool // nothing comes out of it any more, as from a node without power
	alone bool // it has no Lease any more

	forwards []httpstream.Connection
}

func newForwarding(t *testing.T) *forwarding {
	t.Helper()
	objects, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stables", Name: "pegasus"}}); err != nil {
		t.Fatal(err)
	}
	made := &forwarding{t: t, objects: objects, group: lifecycle.New(context.Background())}
	server := httptest.NewServer(made)
	t.Cleanup(func() {
		made.deletes(made.all()...)
		server.CloseClientConnections()
		server.Close()
		made.group.Stop()
		if err := made.group.Wait(); err != nil {
			t.Error(err)
		}
	})
	made.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": %q}}], "users": [{"name": "u", "user": {"token": "none"}}],
		"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}`, server.URL)
	if err := os.WriteFile(made.kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return made
}

// starts starts a pod.
func (f *forwarding) starts(name string, options controller.Options) *operatorPod {
	f.t.Helper()
	listens := make(chan net.Addr, 1)
	options.Logger, options.MetricsAddress = slog.New(slog.DiscardHandler), "127.0.0.1:0"
	options.OnListen = func(_ string, address net.Addr) { listens <- address }
	made := &operatorPod{group: lifecycle.New(context.Background())}
	config := f.objects.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrips(func(request *http.Request) (*http.Response, error) {
			f.mu.Lock()
			alone := made.alone
			f.mu.Unlock()
			if alone && strings.Contains(request.URL.Path, "/leases") {
				return nil, errors.New("the network is cut")
			}
			return next.RoundTrip(request)
		})
	})
	manager, err := controller.NewManager(config, scheme.Scheme, options)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := manager.Add("horses", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }, controller.For(&corev1.ConfigMap{})); err != nil {
		f.t.Fatal(err)
	}
	made.group.Go("manager", manager.Run)
	select {
	case address := <-listens:
		made.port = address.(*net.TCPAddr).Port
	case <-made.group.Ended():
		f.t.Fatal(made.group.Wait())
	}
	made.pod = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(made.port)}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = append(f.pods, made)
	return made
}

// roundTrips is a transport.
type roundTrips func(*http.Request) (*http.Response, error)

func (r roundTrips) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func (f *forwarding) all() []*operatorPod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*operatorPod{}, f.pods...)
}

// deletes ends the processes of pods, and closes the connections to them.
func (f *forwarding) deletes(pods ...*operatorPod) {
	f.t.Helper()
	for _, gone := range pods {
		gone.group.Stop()
		if err := gone.group.Wait(); err != nil {
			f.t.Error(err)
		}
		f.mu.Lock()
		f.pods = without(f.pods, gone)
		forwards := gone.forwards
		f.mu.Unlock()
		for _, forward := range forwards {
			_ = forward.Close() // The client may have closed it.
		}
	}
}

func without(pods []*operatorPod, gone *operatorPod) (rest []*operatorPod) {
	for _, pod := range pods {
		if pod != gone {
			rest = append(rest, pod)
		}
	}
	return rest
}

// marks changes a pod, as it is listed and forwarded to from now on.
func (f *forwarding) marks(pod *operatorPod, change func(*operatorPod)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(pod)
}

func (f *forwarding) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	const pods = "/api/v1/namespaces/operators/pods"
	if request.URL.Path == pods {
		f.mu.Lock()
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
		for _, each := range f.pods {
			list.Items = append(list.Items, each.pod)
		}
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			f.t.Log(err) // The client has gone.
		}
		return
	}
	name, isForward := strings.CutSuffix(strings.TrimPrefix(request.URL.Path, pods+"/"), "/portforward")
	for _, each := range f.all() {
		if isForward && each.pod.Name == name {
			f.forward(w, request, each)
			return
		}
	}
	http.NotFound(w, request)
}

// forward forwards each data stream to a connection of its own, and closes the error stream with it.
func (f *forwarding) forward(w http.ResponseWriter, request *http.Request, to *operatorPod) {
	if _, err := httpstream.Handshake(request, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		f.t.Error(err)
		return
	}
	errorStreams := make(chan httpstream.Stream, 100)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, request, func(stream httpstream.Stream, _ <-chan struct{}) error {
		if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			errorStreams <- stream // It comes before its data stream.
			return nil
		}
		problem := <-errorStreams
		f.group.Go("stream", func(context.Context) error { f.copy(stream, problem, to); return nil })
		return nil
	})
	if connection == nil {
		return
	}
	f.mu.Lock()
	to.forwards = append(to.forwards, connection)
	f.mu.Unlock()
	<-connection.CloseChan()
}

func (f *forwarding) copy(stream, problem httpstream.Stream, to *operatorPod) {
	defer func() { _ = problem.Close(); _ = stream.Reset() }()
	inner, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", to.port))
	if err != nil {
		_, _ = fmt.Fprint(problem, err)
		return
	}
	defer func() { _ = inner.Close() }()
	f.group.Go("sent", func(context.Context) error {
		_, _ = io.Copy(inner, stream) // One of them ends.
		_ = inner.(*net.TCPConn).CloseWrite()
		return nil
	})
	_, _ = io.Copy(writes{f, stream, to}, inner)
	_ = stream.Close()
}

// writes passes what a pod sends, unless the pod hangs.
type writes struct {
	f  *forwarding
	to io.Writer
	of *operatorPod
}

func (w writes) Write(sent []byte) (int, error) {
	w.f.mu.Lock()
	hangs := w.of.hangs
	w.f.mu.Unlock()
	if hangs {
		return len(sent), nil
	}
	return w.to.Write(sent)
}
