package controller_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
