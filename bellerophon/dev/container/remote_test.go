package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	httpspdy "k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// apiServer answers requests for pods/exec by running the programs on this machine.
type apiServer struct {
	local *local
	spdy  bool // no WebSockets
	cuts  bool // the connection ends without an exit code
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path != "/api/v1/namespaces/team/pods/demo-1/exec" || request.URL.Query().Get("container") != "app" {
		http.Error(w, "wrong request "+request.URL.String(), http.StatusBadRequest)
		return
	}
	if a.spdy {
		a.serveSPDY(w, request)
		return
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		remotecommand.StreamProtocolV5Name: {Binary: true, Channels: []wsstream.ChannelType{
			wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel,
		}},
	})
	_, streams, err := conn.Open(w, request)
	if err != nil {
		return
	}
	defer conn.Close()
	a.run(request, streams[0], streams[1], streams[2], streams[3])
}

func (a *apiServer) run(request *http.Request, stdin io.Reader, stdout, stderr, status io.Writer) {
	exit, err := a.local.exec(request.Context(), place, request.URL.Query()["command"], stdin, stdout, stderr)
	if a.cuts {
		return
	}
	answer := metav1.Status{Status: metav1.StatusSuccess}
	switch {
	case err != nil:
		answer = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	case exit != 0:
		answer = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(exit)}}}}
	}
	_ = json.NewEncoder(status).Encode(answer)
}

func (a *apiServer) serveSPDY(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		http.Error(w, "no WebSockets", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(request, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return
	}
	opened := make(chan httpstream.Stream, 4)
	conn := httpspdy.NewResponseUpgrader().UpgradeResponse(w, request, func(stream httpstream.Stream, _ <-chan struct{}) error {
		opened <- stream
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	streams := map[string]httpstream.Stream{}
	for len(streams) < 4 {
		stream := <-opened
		streams[stream.Headers().Get("streamType")] = stream
	}
	a.run(request, streams["stdin"], streams["stdout"], streams["stderr"], streams["error"])
	for _, name := range []string{"stdout", "stderr", "error"} {
		_ = streams[name].Close()
	}
	select {
	case <-conn.CloseChan():
	case <-time.After(time.Second):
	}
}

// dial returns an Execs whose API server is a handler.
func dial(t *testing.T, handler http.Handler, root string) *Execs {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(config, client)
	if err != nil {
		t.Fatal(err)
	}
	e.root = root
	return e
}

func TestCommandsAndSyncsWorkOverBothProtocols(t *testing.T) {
	for name, isSPDY := range map[string]bool{"WebSocket": false, "SPDY": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			e := dial(t, &apiServer{local: newLocal(t, []string{"sh"}), spdy: isSPDY}, root)
			want := projectOf(file("a", strings.Repeat("a", 1<<20), 0o644), file("b/c", "c", 0o755))
			if err := bring(t.Context(), e, place, want); err != nil {
				t.Fatal(err)
			}
			compare(t, root, want.tree())
			var output buffer
			exit, err := e.Run(t.Context(), place, Command{Slot: "build", Line: "ls; echo wrong >&2; exit 5", Directory: projectDirectory, Mark: "m"}, &output)
			if err != nil || exit != 5 || output.String() != "a\nb\nwrong\n" {
				t.Errorf("Run() = %d, %v with %q", exit, err, output.String())
			}
			if exit, err := e.Run(t.Context(), place, Command{Slot: "build", Line: "true", Directory: "/", Mark: "m"}, io.Discard); err != nil || exit != 0 {
				t.Errorf("Run() = %d, %v", exit, err)
			}
			if mark, err := e.Mark(t.Context(), place, "build"); err != nil || mark != "m" {
				t.Errorf("Mark() = %q, %v", mark, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			pids, wait := start(ctx, t, e, place, family)
			cancel()
			if _, err := wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("Run() = %v, want context.Canceled", err)
			}
			checkGone(t, pids())
		})
	}
}

func TestAConnectionThatBreaksIsNoSuccess(t *testing.T) {
	for name, isSPDY := range map[string]bool{"WebSocket": false, "SPDY": true} {
		t.Run(name, func(t *testing.T) {
			e := dial(t, &apiServer{local: newLocal(t, []string{"sh"}), spdy: isSPDY, cuts: true}, t.TempDir())
			if exit, err := e.Run(t.Context(), place, lineIn("/", "kill -KILL -$PPID"), io.Discard); !errors.Is(err, ErrConnection) {
				t.Errorf("Run() = %d, %v, want ErrConnection", exit, err)
			}
		})
	}
}

func TestAnAPIServerThatHangsDoesNotHoldACallThatIsCanceled(t *testing.T) {
	for name, isSPDY := range map[string]bool{"WebSocket": false, "SPDY": true} {
		t.Run(name, func(t *testing.T) {
			hung, release := make(chan struct{}, 9), make(chan struct{})
			e := dial(t, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				if isSPDY && request.Method == http.MethodGet {
					http.Error(w, "no WebSockets", http.StatusBadRequest)
					return
				}
				hung <- struct{}{}
				<-release
			}), "")
			defer close(release)
			ctx, cancel := context.WithCancel(t.Context())
			group := lifecycle.New(ctx)
			var failed error
			group.Go("held", func(ctx context.Context) error {
				_, failed = e.Held(ctx, place)
				return nil
			})
			<-hung
			began := time.Now()
			cancel()
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); !errors.Is(failed, context.Canceled) || took > 3*time.Second {
				t.Errorf("Held() = %v after %v", failed, took)
			}
		})
	}
}

func TestAServerThatIsNotThereIsABrokenConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := dial(t, http.NotFoundHandler(), "")
	e.executor.(*remote).config.Host = listener.Addr().String()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	e.executor.(*remote).client = client.CoreV1().RESTClient()
	_ = listener.Close()
	if _, err := e.Held(t.Context(), place); !errors.Is(err, ErrConnection) {
		t.Errorf("Held() = %v, want ErrConnection", err)
	}
}

func TestTheErrorsOfServersAndRuntimesHaveKinds(t *testing.T) {
	answer := func(code int, message string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status: metav1.StatusFailure, Code: int32(code), Message: message})
		})
	}
	for _, test := range []struct {
		code    int
		message string
		want    error
	}{
		{404, `pods "demo-1" not found`, ErrGone},
		{500, `unable to upgrade connection: container not found ("app")`, ErrGone},
		{404, `unable to upgrade connection: pod does not exist`, ErrGone},
		{400, `container app is not valid for pod demo-1`, ErrGone},
		{400, `pod demo-1 does not have a host assigned`, ErrGone},
		{500, `error dialing backend: connection refused`, ErrConnection},
		{503, `the server is currently unable to handle the request`, ErrConnection},
	} {
		if _, err := dial(t, answer(test.code, test.message), "").Held(t.Context(), place); !errors.Is(err, test.want) ||
			!strings.Contains(err.Error(), "container app of pod team/demo-1") {
			t.Errorf("the answer %d %q becomes %v, want %v with the container's name", test.code, test.message, err, test.want)
		}
	}
	_, err := dial(t, answer(403, `pods "demo-1" is forbidden: User "x" cannot create resource "pods/exec"`), "").Held(t.Context(), place)
	if err == nil || errors.Is(err, ErrConnection) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "pods/exec") {
		t.Errorf("the answer Forbidden becomes %v", err)
	}
	for message, want := range map[string]error{
		`Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "x": OCI runtime exec failed: exec failed: unable to start container process: exec: "sh": executable file not found in $PATH: unknown`: ErrNoShell,
		`Internal error occurred: error executing command in container: failed to exec in container: container is in CONTAINER_EXITED state: container not running`:                                                                                              ErrGone,
		`error executing command in container: failed to exec in container: failed to load task: no running task found: task x not found: not found`:                                                                                                             ErrGone,
		`error reading from error stream: next reader: websocket: close 1006 (abnormal closure): unexpected EOF`:                                                                                                                                                 ErrConnection,
	} {
		failing := newExecs(stub(func(context.Context, []string, io.Reader, io.Writer, io.Writer) (int, error) {
			return 0, errors.New(message)
		}), "")
		if _, err := failing.Held(t.Context(), place); !errors.Is(err, want) {
			t.Errorf("%q becomes %v, want %v", message, err, want)
		}
	}
	for stderr, want := range map[string]error{
		"tar: a: Cannot write: No space left on device": ErrDiskFull,
		"tar: write error: No space left on device":     ErrDiskFull,
	} {
		full := newExecs(stub(func(_ context.Context, _ []string, _ io.Reader, _, errs io.Writer) (int, error) {
			_, _ = io.WriteString(errs, stderr)
			return 96, nil
		}), "")
		full.known[place.key()] = version{}
		err := full.Sync(t.Context(), place, worktree.Change{Send: []string{"a"}}, projectOf(file("a", "a", 0o644)).contents([]string{"a"}), nil)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "container app") {
			t.Errorf("%q becomes %v, want %v with the container's name", stderr, err, want)
		}
	}
}
