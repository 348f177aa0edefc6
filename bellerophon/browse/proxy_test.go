package browse_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/browse"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy to an operator that wants a token.
type world struct {
	t        *testing.T
	url      string // with the key
	base     string
	client   *http.Client // follows redirects, and keeps cookies
	operator *httptest.Server
	stop     func()
	ended    <-chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("wings\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.operator = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "Bearer wings" || request.Header.Get("Cookie") != "" || request.Header.Get("X-Other") != "" || strings.Contains(request.URL.RawQuery, "key") {
			t.Errorf("the operator gets %s with %v", request.URL, request.Header)
		}
		if request.URL.Path == "/page/events" {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "event: state\ndata: {}\n\n")
			_ = http.NewResponseController(rw).Flush()
			<-request.Context().Done()
			return
		}
		_, _ = io.WriteString(rw, "the operator's "+request.URL.RequestURI())
	}))
	t.Cleanup(w.operator.Close)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	proxy, err := browse.New(ask.Server{URL: w.operator.URL + "/", TokenFile: token, Insecure: true}, port)
	if err != nil {
		t.Fatal(err)
	}
	w.url, w.base = proxy.URL(), "http://127.0.0.1:"+port
	group := lifecycle.New(context.Background())
	group.Go("proxy", func(ctx context.Context) error { return browse.Serve(ctx, listener, proxy) })
	w.stop, w.ended = group.Stop, group.Ended()
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.client = &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	return w
}

// ask sends a request, which change may change.
func (w *world) ask(method, url string, change func(*http.Request)) *http.Response {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(request)
	}
	answer, err := w.client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func text(t *testing.T, of *http.Response) string {
	t.Helper()
	read, err := io.ReadAll(of.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(read)
}

func TestABrowserWithTheKeyGetsThePageWithoutAToken(t *testing.T) {
	w := newWorld(t)
	first := w.ask(http.MethodGet, w.url, func(request *http.Request) { request.Header.Set("X-Other", "1") })
	if got := text(t, first); got != "the operator's /page/" || first.Request.URL.String() != w.base+"/page/" {
		t.Errorf("at %s it shows %q", first.Request.URL, got)
	}
	set := first.Request.Response.Header.Get("Set-Cookie")
	if !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") {
		t.Errorf("the cookie is %q", set)
	}
	for _, path := range []string{"/page/main.js", "/debug/manager", "/debug/tree?search=a&limit=3", "/debug/why?object=sheroes/x"} {
		if got := text(t, w.ask(http.MethodGet, w.base+path, nil)); got != "the operator's "+path {
			t.Errorf("%s shows %q", path, got)
		}
	}
}

func TestAStreamPassesAtOnceAndEndsWithTheProxy(t *testing.T) {
	w := newWorld(t)
	w.ask(http.MethodGet, w.url, nil)
	answer := w.ask(http.MethodGet, w.base+"/page/events", nil)
	read := make([]byte, 12)
	if _, err := io.ReadFull(answer.Body, read); err != nil || string(read) != "event: state" {
		t.Fatalf("it reads %q, %v", read, err)
	}
	w.stop()
	select {
	case <-w.ended:
	case <-time.After(10 * time.Second):
		t.Error("the proxy does not end while a browser reads")
	}
}

func TestOthersAreRefused(t *testing.T) {
	w := newWorld(t)
	stranger := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	friend := w.client
	w.ask(http.MethodGet, w.url, nil)
	host := func(name string) func(*http.Request) { return func(request *http.Request) { request.Host = name } }
	header := func(name, value string) func(*http.Request) {
		return func(request *http.Request) { request.Header.Set(name, value) }
	}
	port := strings.TrimPrefix(w.base, "http://127.0.0.1:")
	for name, test := range map[string]struct {
		client      *http.Client
		method, url string
		change      func(*http.Request)
		want        int
	}{
		"without a key":                  {stranger, "GET", "/page/", nil, 403},
		"with an empty key":              {stranger, "GET", "/page/?key=", nil, 403},
		"with a wrong key":               {stranger, "GET", "/page/?key=AAAA", nil, 403},
		"with a wrong key and a cookie":  {friend, "GET", "/page/?key=AAAA", nil, 403},
		"with a wrong cookie":            {stranger, "GET", "/page/", header("Cookie", "bellerophon-page-"+port+"=AAAA"), 403},
		"with another name of the host":  {friend, "GET", "/page/", host("evil.example:" + port), 421},
		"with another port of the host":  {friend, "GET", "/page/", host("127.0.0.1:1"), 421},
		"without a port":                 {friend, "GET", "/page/", host("127.0.0.1"), 421},
		"from another site":              {friend, "GET", "/page/events", header("Sec-Fetch-Site", "cross-site"), 403},
		"from another port of this host": {friend, "GET", "/debug/manager", header("Sec-Fetch-Site", "same-site"), 403},
		"with POST":                      {friend, "POST", "/page/", nil, 405},
		"with HEAD":                      {friend, "HEAD", "/page/", nil, 405},
		"with DELETE":                    {friend, "DELETE", "/debug/manager", nil, 405},
		"for the metrics":                {friend, "GET", "/metrics", nil, 404},
		"for a profile":                  {friend, "GET", "/debug/pprof/heap", nil, 404},
		"by a way with dots":             {friend, "GET", "/page/../metrics", nil, 404},
		"by a way with hidden dots":      {friend, "GET", "/page/%2e%2e/metrics", nil, 404},
		"by a way with a hidden slash":   {friend, "GET", "/page/..%2fmetrics", nil, 404},
		"by two slashes":                 {friend, "GET", "/page//metrics", nil, 404},
	} {
		t.Run(name, func(t *testing.T) {
			w.t, w.client = t, test.client
			if answer := w.ask(test.method, w.base+test.url, test.change); answer.StatusCode != test.want {
				t.Errorf("the answer is %s %s", answer.Status, text(t, answer))
			}
		})
	}
}

func TestAnOperatorThatHasGoneIsNamed(t *testing.T) {
	w := newWorld(t)
	w.ask(http.MethodGet, w.url, nil)
	w.operator.Close()
	answer := w.ask(http.MethodGet, w.base+"/page/", nil)
	if got := text(t, answer); answer.StatusCode != http.StatusBadGateway || !strings.Contains(got, "the operator does not answer") || !strings.Contains(got, "connects again when it does") {
		t.Errorf("the answer is %s %s", answer.Status, got)
	}
	if parsed, err := url.Parse(w.url); err != nil || len(parsed.Query().Get("key")) < 26 {
		t.Errorf("the URL is %s", w.url)
	}
}
