package controller_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// answersVersion answers the question for the version in the place of a server.
type answersVersion struct {
	http.RoundTripper
	answer func(*http.Request) (*http.Response, error)
	asked  int
}

func (v *answersVersion) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Path != "/version" {
		return v.RoundTripper.RoundTrip(request)
	}
	v.asked++
	return v.answer(request)
}

func saysVersion(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(request *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
	}
}

// runOn runs a manager for five minutes on a server that gives an answer for its version.
func runOn(t *testing.T, answer func(*http.Request) (*http.Response, error)) (ran time.Duration, reconciled, asked int, log string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, made := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if made != nil {
			t.Fatal(made)
		}
		connected := server.Config()
		through := &answersVersion{RoundTripper: connected.Transport, answer: answer}
		connected.Transport = through
		var said bytes.Buffer
		manager, made := controller.NewManager(connected, scheme.Scheme, controller.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if made != nil {
			t.Fatal(made)
		}
		if made := manager.Add("configs", func(context.Context, operators.Request) (time.Duration, error) {
			reconciled++
			return 0, nil
		}, controller.For(&corev1.ConfigMap{})); made != nil {
			t.Fatal(made)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		group := lifecycle.New(t.Context())
		began := time.Now()
		group.Go("manager", func(context.Context) error {
			err = manager.Run(ctx)
			ran = time.Since(began)
			return nil
		})
		<-time.After(time.Minute)
		object := config("x")
		if made := server.Create(object); made != nil {
			t.Error(made)
		}
		if made := group.Wait(); made != nil {
			t.Error(made)
		}
		asked, log = through.asked, said.String()
	})
	return ran, reconciled, asked, log, err
}

func TestAManagerRefusesAServerThatIsTooOld(t *testing.T) {
	for _, version := range []string{"v1.29.0", "v1.34.4", "v1.34.9-gke.1000000", "v1.34.0+k3s1", "v0.99.0"} {
		ran, reconciled, _, _, err := runOn(t, saysVersion(http.StatusOK, `{"gitVersion":"`+version+`"}`))
		if !errors.Is(err, controller.ErrOldServer) || !strings.Contains(err.Error(), "runs Kubernetes "+version+": ") || !strings.Contains(err.Error(), "use Kubernetes 1.35 or newer") {
			t.Errorf("on %s it ends with %v", version, err)
		}
		if ran > 0 || reconciled > 0 {
			t.Errorf("on %s it ran for %v and reconciled %d objects", version, ran, reconciled)
		}
	}
}

func TestAManagerRunsOnEachOtherServer(t *testing.T) {
	unreachable := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	for name, test := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		warns  bool
	}{
		"the oldest":      {saysVersion(http.StatusOK, `{"gitVersion":"v1.35.0"}`), false},
		"of a vendor":     {saysVersion(http.StatusOK, `{"gitVersion":"v1.35.2-gke.100"}`), false},
		"without a v":     {saysVersion(http.StatusOK, `{"gitVersion":"1.36.0+k3s1"}`), false},
		"a later one":     {saysVersion(http.StatusOK, `{"gitVersion":"v1.100.3"}`), false},
		"a later major":   {saysVersion(http.StatusOK, `{"gitVersion":"v2.0.0"}`), false},
		"a beta":          {saysVersion(http.StatusOK, `{"gitVersion":"v1.38.0-beta.0"}`), false},
		"no version":      {saysVersion(http.StatusOK, `{}`), true},
		"nonsense":        {saysVersion(http.StatusOK, `<html>`), true},
		"it is forbidden": {saysVersion(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`), true},
		"it is not there": {saysVersion(http.StatusNotFound, ``), true},
		"no answer":       {unreachable, false},
		"it is broken":    {saysVersion(http.StatusInternalServerError, ``), false},
	} {
		ran, reconciled, asked, log, err := runOn(t, test.answer)
		if err != nil || ran != 5*time.Minute || reconciled != 1 {
			t.Errorf("%s: it ran for %v, reconciled %d objects, and ended with %v", name, ran, reconciled, err)
		}
		if warned := strings.Contains(log, "the version of the API server is not known"); warned != test.warns || strings.Count(log, "the version of the API server") > 1 {
			t.Errorf("%s: whether it warns is %v, want %v:\n%s", name, warned, test.warns, log)
		}
		if asked > 20 {
			t.Errorf("%s: in five minutes it asked %d times", name, asked)
		}
	}
}

func TestAnOldServerIsRefusedWhenItAnswersAtLast(t *testing.T) {
	times := 0
	ran, _, _, _, err := runOn(t, func(request *http.Request) (*http.Response, error) {
		if times++; times < 4 {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return saysVersion(http.StatusOK, `{"gitVersion":"v1.34.1"}`)(request)
	})
	if !errors.Is(err, controller.ErrOldServer) || ran != 7*time.Second {
		t.Errorf("after %v it ends with %v", ran, err)
	}
}
