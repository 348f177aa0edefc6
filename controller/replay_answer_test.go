package controller

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/recording"
)

func TestCreationsOfOneAttemptMayComeInAnyOrder(t *testing.T) {
	const secrets, one = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/one"
	named := func(name, color string) string { return `{"metadata":{"name":"` + name + `"},"color":"` + color + `"}` }
	attempt := &replayedAttempt{}
	for _, sent := range [][3]string{
		{"POST", secrets, named("one", "red")}, {"POST", secrets, named("two", "red")}, {"POST", secrets, named("three", "red")},
		{"PUT", one, named("one", "green")}, {"PUT", one, named("one", "blue")},
	} {
		attempt.exchanges = append(attempt.exchanges, &replayedExchange{Exchange: &recording.Exchange{Method: sent[0], URL: sent[1], Body: []byte(sent[2])}})
	}
	r := newReplay(nil)
	match := func(method, path, body string) string {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://recording"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if found := r.match(attempt, request, []byte(body)); found != nil {
			return string(found.Body)
		}
		return ""
	}
	for _, body := range []string{named("three", "red"), named("one", "red")} {
		if got := match("POST", secrets, body); got != body {
			t.Errorf("%s is the request %s of the recording", body, got)
		}
	}
	if len(attempt.differences) > 0 {
		t.Errorf("another order of creations is the difference %q", attempt.differences)
	}
	match("POST", secrets, named("four", "red")) // Its name is new, so it takes the place of what is left.
	match("PUT", one, named("one", "blue"))
	want := []string{
		"POST " + secrets, `  - metadata.name: "two"`, `  + metadata.name: "four"`,
		"PUT " + one, `  - color: "green"`, `  + color: "blue"`,
	}
	if !slices.Equal(attempt.differences, want) {
		t.Errorf("the differences are %q, want %q", attempt.differences, want)
	}
}
