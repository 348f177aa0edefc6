package page

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/browse"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestThePageGoesBackInARecordingWithAndWithoutItsOperator(t *testing.T) {
	records := t.TempDir()
	w := newRecordedWorld(t, 8, records)
	<-time.After(6 * time.Second) // That is the past, before the page is opened.
	open(t, w, func(o *opened) {
		o.until("live marbles", `document.getElementById("connection").textContent === "connected" && /In view: [1-9]/.test(document.getElementById("count").textContent)`)
		o.until("the beginning of the recording", `document.getElementById("recorded").textContent.startsWith("The slider reaches back to")`)
		o.reach("#slider")
		o.press(kb.Home)
		for range 4 {
			o.press(kb.ArrowRight)
			o.press(kb.ArrowRight)
		}
		o.seesThePast()
		eval[any](o, `document.activeElement.blur(), scrollTo(0, 0)`)
		o.reach("#slider")
		o.press(kb.End)
		o.until("the present", `document.getElementById("clock").textContent === "live" && document.getElementById("state-time").textContent === "Now." && document.querySelector("#levels [aria-current=step]")`)
		o.until("live marbles again", `/In view: [1-9]/.test(document.getElementById("count").textContent)`)
		o.checkHarmless()
	})
	w.stop()

	// Without an operator, the same page shows the same recording.
	openURL(t, serveRecording(t, records), func(o *opened) {
		o.until("the recording", `document.getElementById("connection").textContent === "recording of v1"`)
		o.until("its end", `/In view: [1-9]/.test(document.getElementById("count").textContent)`)
		if got := eval[string](o, `location.search`); got != "" {
			t.Errorf("the key stays in the URL: %s", got)
		}
		o.reach("#slider")
		for range 3 {
			o.press(kb.PageDown)
		}
		o.seesThePast()
		if !eval[bool](o, `document.getElementById("live").disabled`) {
			t.Error("a recording can become live")
		}
		o.checkHarmless()
	})
}

// seesThePast looks at the diagram, an attempt, and the objects of a time that is recorded.
func (o *opened) seesThePast() {
	o.t.Helper()
	o.until("a recorded time", `document.getElementById("clock").textContent.includes("recorded") && document.getElementById("state-time").textContent.startsWith("As recorded at")`)
	o.until("recorded marbles", `/In view: [1-9]\d* events?, [1-9]\d* changes?, [1-9]\d* attempts?/.test(document.getElementById("count").textContent)`)
	if state := o.text("#state"); !strings.Contains(state, "Deployment.apps") || !strings.Contains(state, "stables") || !strings.Contains(state, "No fight and no hot loop.") {
		o.t.Errorf("the recorded state is %s", state)
	}
	if header, level := o.text("#summary"), o.text("#levels [aria-current]"); level == "" || strings.Contains(header, "NaN") || strings.Contains(header, "not recorded") {
		o.t.Errorf("the header of the past is %s, with the level %q", header, level)
	}
	if state := o.text("#state"); !strings.Contains(state, "waiting for a worker") || !strings.Contains(state, "debounce") || strings.Contains(state, "earlier version") {
		o.t.Errorf("the recorded state lacks queues or stages: %s", state)
	}
	eval[any](o, `document.activeElement.blur(), scrollTo(0, 0)`)
	o.reach("#marbles")
	o.press(kb.Escape)
	for range 6 { // The line of the controller is the last one.
		if o.press(kb.ArrowDown); strings.Contains(o.text("#detail"), "Attempt: ") {
			break
		}
	}
	if detail := o.text("#detail"); !regexp.MustCompile(`(?s)Attempt: .*Queued\s*(\d|under 1 ms)`).MatchString(detail) {
		o.t.Errorf("the recorded attempt is described as %s", detail)
	}
	o.press(kb.Escape, kb.ArrowDown, kb.ArrowDown)
	for range 30 {
		if strings.Contains(o.text("#detail"), "echo of ConfigMap") {
			break
		}
		o.press(kb.ArrowLeft)
	}
	if detail := o.text("#detail"); !strings.Contains(detail, "Event: Deployment.apps stable/pegasus-") || !strings.Contains(detail, "in the cache") || !strings.Contains(detail, "echo of ConfigMap") {
		o.t.Errorf("the recorded event is described as %s", detail)
	}
	o.press(kb.Enter)
	o.until("why it was reconciled", `document.getElementById("why-title").textContent.startsWith("Why: Deployment.apps stable/pegasus-") && /as recorded\..*Deployment.apps pegasus-\d.*was (updated|added|in a list)/.test(document.getElementById("reasons").textContent)`)
	o.until("its tree", `(() => {
		const found = [...document.querySelectorAll("#tree [aria-level='1']")].find((of) => of.textContent.includes("Deployment.apps"));
		if (found?.getAttribute("aria-expanded") === "false") found.querySelector(".twist").click();
		return document.querySelectorAll("#tree [aria-level='2']").length === 2;
	})()`)
	eval[any](o, `document.getElementById("text").value = "", document.getElementById("search").requestSubmit()`)
	o.until("all objects", `document.querySelectorAll("#tree [aria-level='1']").length >= 8`)
}

// serveRecording serves a recording as bellerophon page does, and returns the URL.
func serveRecording(t *testing.T, path string) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	shown, err := browse.NewRecorded(path, scheme.Scheme, port)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.WithoutCancel(t.Context()))
	group.Go("recording", func(ctx context.Context) error { return browse.Serve(ctx, listener, shown) })
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return shown.URL()
}
