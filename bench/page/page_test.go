package page

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var update = flag.Bool("update", false, "write the screenshots of docs/page.md")

const (
	limit    = 2 * time.Minute  // of a test, whose browser starts slowly on a busy machine
	patience = 20 * time.Second // until the page shows something
)

// opened is a tab with the page.
type opened struct {
	t   *testing.T
	tab context.Context
}

// open opens the page of a world in a browser, and skips the test without one.
func open(t *testing.T, w *world, use func(o *opened)) {
	t.Helper()
	openURL(t, "http://"+w.address+"/page/", use)
}

func openURL(t *testing.T, url string, use func(o *opened)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := browser.Use(ctx, func(tab context.Context) error {
		o := &opened{t, tab}
		// Whatever the page must not do is noted from the first script on.
		noted := page.AddScriptToEvaluateOnNewDocumentParams{Source: `
			window.noted = [];
			window.alert = (text) => noted.push("alert " + text);
			addEventListener("error", (event) => noted.push("error " + event.message));
			addEventListener("unhandledrejection", (event) => noted.push("rejection " + event.reason));
			addEventListener("securitypolicyviolation", (event) => noted.push("violation " + event.violatedDirective + " " + event.blockedURI));`}
		if _, err := chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, noted); err != nil {
			return err
		}
		if err := chromedp.Do(tab, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url)); err != nil {
			return err
		}
		use(o)
		return nil
	})
	if errors.Is(err, browser.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// eval evaluates an expression on the page, and waits for its promise.
func eval[T any](o *opened, expression string) T {
	o.t.Helper()
	value, err := chromedp.Run(o.tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		o.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// until waits until a condition holds on the page.
func (o *opened) until(what, condition string) {
	o.t.Helper()
	for begun := time.Now(); ; <-time.After(50 * time.Millisecond) {
		if eval[bool](o, "!!("+condition+")") {
			return
		}
		if time.Since(begun) > patience {
			o.t.Fatalf("the page does not show %s; it shows:\n%s", what, eval[string](o, "document.body.innerText"))
		}
	}
}

func (o *opened) do(steps ...chromedp.Action[chromedp.Void]) {
	o.t.Helper()
	if err := chromedp.Do(o.tab, steps...); err != nil {
		o.t.Fatal(err)
	}
}

func (o *opened) press(keys ...string) {
	o.t.Helper()
	for _, key := range keys {
		o.do(chromedp.KeyEvent(key))
	}
}

// reach moves the focus with the key Tab to an element.
func (o *opened) reach(selector string) {
	o.t.Helper()
	for range 60 {
		if eval[bool](o, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		o.press(kb.Tab)
	}
	o.t.Fatalf("Tab does not reach %s", selector)
}

func (o *opened) text(selector string) string {
	o.t.Helper()
	return eval[string](o, fmt.Sprintf("document.querySelector(%q).textContent", selector))
}

// emulate sets media features, such as prefers-color-scheme, as name and value in turn.
func (o *opened) emulate(features ...string) {
	o.t.Helper()
	var params emulation.SetEmulatedMediaParams
	for pair := range slices.Chunk(features, 2) {
		params.Features = append(params.Features, &emulation.MediaFeature{Name: pair[0], Value: pair[1]})
	}
	if _, err := chromedp.Call(o.tab, emulation.SetEmulatedMedia, params); err != nil {
		o.t.Fatal(err)
	}
}

// picture writes a screenshot of the viewport for the docs.
func (o *opened) picture(name string) {
	o.t.Helper()
	if !*update {
		return
	}
	content, err := chromedp.Call(o.tab, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: "png"})
	if err != nil {
		o.t.Fatal(err)
	}
	shrunk, err := shrink(content.Data)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("..", "..", "docs", name+".png"), shrunk, 0o644); err != nil {
		o.t.Fatal(err)
	}
}

// fill waits until items fill the diagram, for a screenshot.
func (o *opened) fill() {
	o.t.Helper()
	if *update {
		<-time.After(13 * time.Second)
	}
}

// fits reports whether the page is not wider than the window.
func (o *opened) fits() bool {
	o.t.Helper()
	return eval[bool](o, "document.documentElement.scrollWidth <= innerWidth")
}

// checkHarmless checks that no text of an object became an element or a script, and that no other host was asked.
func (o *opened) checkHarmless() {
	o.t.Helper()
	if noted := eval[[]string](o, "noted"); len(noted) > 0 {
		o.t.Errorf("the page has %q", noted)
	}
	if found := eval[int](o, `document.querySelectorAll("img, body script, iframe, [onerror]").length`); found > 0 {
		o.t.Errorf("the page has %d elements that it did not make", found)
	}
	if others := eval[[]string](o, `performance.getEntriesByType("resource").map((of) => of.name).filter((name) => !name.startsWith(location.origin + "/"))`); len(others) > 0 {
		o.t.Errorf("the page asked %s", strings.Join(others, ", "))
	}
}
