package api

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
)

func FuzzAnyRequestNamesARevisionOrIsInvalid(f *testing.F) {
	f.Add(`"7"`, "", "3", "9", "local")
	f.Add("", "*", "-1", "", "linearizable")
	f.Add(`""18446744073709551616"`, "x", "\n", "1e9", "?")
	f.Fuzz(func(t *testing.T, match, none, last, after, consistency string) {
		request := httptest.NewRequest("GET", "/v1/watch?"+url.Values{"after": {after}, "consistency": {consistency}}.Encode(), strings.NewReader(""))
		request.Header.Set("If-Match", match)
		request.Header.Set("If-None-Match", none)
		request.Header.Set("Last-Event-ID", last)
		wanted, err := condition(request.Header)
		switch {
		case err != nil && (wanted != nil || !errors.Is(err, store.ErrInvalid)):
			t.Errorf("the condition is %v with the error %v", wanted, err)
		case err == nil && (wanted == nil) != (match == "" && none == ""):
			t.Errorf("%q and %q have the condition %v", match, none, wanted)
		case wanted != nil && (*wanted == 0) != (none == "*"):
			t.Errorf("%q and %q have the condition %d", match, none, *wanted)
		}
		if start, err := startOf(request); (start == nil) != (err != nil || last == "" && after == "") {
			t.Errorf("%q and %q start at %v with the error %v", last, after, start, err)
		}
		if _, err := isLocal(request); err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q has the error %v", consistency, err)
		}
	})
}
