package controller_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/client-go/rest"
)

// TestServersOfThisMachineDoNotAnswerPagesOfABrowser has a site whose name leads to this machine: the browser sends that name, and
// lets the page of the site read the answer.
func TestServersOfThisMachineDoNotAnswerPagesOfABrowser(t *testing.T) {
	addresses := serve(t, &rest.Config{Host: "http://127.0.0.1:1"}, controller.Options{Protection: controller.Unprotected})
	for server, path := range map[string]string{"metrics": "/debug/manager", "profile": "/debug/pprof/cmdline", "health": "/healthz"} {
		_, port, err := net.SplitHostPort(addresses[server])
		if err != nil {
			t.Fatal(err)
		}
		for host, refused := range map[string]bool{
			"evil.example:" + port: true, "evil.example": true, "localhost.evil.example:" + port: true, "127.0.0.1.evil.example": true, "x@127.0.0.1": true,
			addresses[server]: false, "localhost:" + port: false, "localhost": false, "[::1]:" + port: false, "[::1]": false,
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addresses[server]+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.StatusCode == http.StatusForbidden && strings.Contains(string(content), "for programs on its own machine"); got != refused {
				t.Errorf("the %s server answers a request for %q with %d %s", server, host, answer.StatusCode, content)
			}
		}
	}
}

func TestServersOfThisMachineDoNotAnswerPagesOfOtherSites(t *testing.T) {
	addresses := serve(t, &rest.Config{Host: "http://127.0.0.1:1"}, controller.Options{Protection: controller.Unprotected})
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addresses["profile"]+"/debug/manager", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Sec-Fetch-Site", site)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a page that is %s gets %d, want %d", site, answer.StatusCode, want)
		}
	}
}

// net/http reads a body before it answers, also where a request needs none.
func TestABodyThatNeverComesDoesNotHoldAConnection(t *testing.T) {
	addresses := serve(t, &rest.Config{Host: "http://127.0.0.1:1"}, controller.Options{Protection: controller.Unprotected})
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", addresses["health"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if _, err := io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := connection.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(connection); err != nil {
		t.Errorf("the connection is still held: %v", err)
	}
}
