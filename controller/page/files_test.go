package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestTheFilesOfThePageAreServedWithTheirTypesAndForNoOtherSite(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	total := int64(0)
	err := fs.WalkDir(os.DirFS("files"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		about, err := entry.Info()
		if err != nil {
			return err
		}
		total += about.Size()
		answer := w.get(http.MethodGet, "/page/"+path, "")
		kinds := map[string]string{"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
		if got, want := answer.Header().Get("Content-Type"), kinds[path[strings.LastIndex(path, ".")+1:]]; got != want || answer.Code != 200 || int64(answer.Body.Len()) != about.Size() {
			t.Errorf("%s: %d, %s, want %s", path, answer.Code, got, want)
		}
		if again := w.get(http.MethodGet, "/page/"+path, answer.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s is sent again: %d", path, again.Code)
		}
		return nil
	})
	if err != nil || total > 150_000 {
		t.Errorf("the files have %d bytes, allowed are 150,000: %v", total, err)
	}
	index := w.get(http.MethodGet, "/page/", "")
	if !strings.Contains(strings.ToLower(index.Body.String()), "<!doctype html>") {
		t.Errorf("the page is %s", index.Body)
	}
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if header := index.Header(); header.Get("Content-Security-Policy") != policy || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the headers are %v", header)
	}
	for path, want := range map[string]int{"/page/missing.js": 404, "/page/../page.go": 404, "/page/files/index.html": 404, "/page/events/": 404} {
		if got := w.get(http.MethodGet, path, ""); got.Code != want {
			t.Errorf("%s: %d, want %d", path, got.Code, want)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodHead, http.MethodDelete} {
		if got := w.get(method, "/page/events", ""); got.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, got.Code)
		}
	}
}

// get asks the page, with the tag of a file that the browser has.
func (w *world) get(method, path, tag string) *httptest.ResponseRecorder {
	w.t.Helper()
	request, recorder := httptest.NewRequestWithContext(w.t.Context(), method, "/page/", nil), httptest.NewRecorder()
	request.URL.Path = path
	request.Header.Set("If-None-Match", tag)
	w.page.ServeHTTP(recorder, request)
	return recorder
}
