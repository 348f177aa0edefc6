package page

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestAPersonFollowsAnObjectByKeyboardAlone(t *testing.T) {
	w := newWorld(t, 12)
	open(t, w, func(o *opened) {
		o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
		o.until("marbles of each stage", `/In view: [1-9]\d* events?, [1-9]\d* changes?, [1-9]\d* attempts?/.test(document.getElementById("count").textContent)`)
		o.until("the level", `document.querySelector("#levels [aria-current=step]")`)
		o.until("rates", `[...document.querySelectorAll("#figures b")].slice(0, 2).every((of) => Number(of.textContent) > 0)`)
		if state := o.text("#state"); !strings.Contains(state, "stables") || !strings.Contains(state, "Deployment.apps") || !strings.Contains(state, "workers busy") {
			t.Errorf("the state is %s", state)
		}

		// A mark of the diagram, and its way.
		eval[any](o, `import("./store.js").then((store) => { window.store = store; })`)
		o.until("echoes", `store.totals.echoes > 10`)
		o.fill()
		o.reach("#marbles")
		o.press(kb.ArrowDown, kb.ArrowDown) // the newest of the first line, and the next line
		o.until("a selected event", `document.getElementById("detail").textContent.includes("Event: Deployment.apps stable/pegasus-")`)
		for range 40 { // The newest have no echo yet.
			if eval[bool](o, `/Way: event of Deployment.*in the cache.*attempt of stables succeeded.*echo of ConfigMap/.test(document.getElementById("detail").textContent)`) {
				break
			}
			o.press(kb.ArrowLeft)
		}
		if detail := o.text("#detail"); !strings.Contains(detail, "Version") || !strings.Contains(detail, "echo of ConfigMap") {
			t.Errorf("the selected event is described as %s", detail)
		}
		o.picture("page-light")
		o.press(kb.Enter)
		o.until("the object of the mark", `document.activeElement.matches("[role=treeitem][aria-selected=true]") && document.getElementById("why-title").textContent.startsWith("Why: Deployment.apps stable/pegasus-")`)

		// The search, the tree and why.
		eval[any](o, `document.activeElement.blur(), document.getElementById("text").value = "", scrollTo(0, 0)`)
		o.reach("#text")
		o.do(chromedp.KeyEvent("pegasus-5"))
		o.until("both roots", `document.getElementById("found").textContent === "2 objects found." && document.getElementById("tree").textContent.includes("pegasus-5")`)
		o.press(kb.ArrowDown, kb.ArrowDown)
		o.until("the focus in the tree", `document.activeElement.matches("[role=treeitem]") && document.activeElement.textContent.includes("Deployment.apps")`)
		o.press(kb.ArrowRight)
		o.until("its children", `document.querySelectorAll("#tree [aria-level='2']").length === 2`)
		o.press(kb.Enter)
		o.until("why", `/was updated: .*spec.replicas/.test(document.getElementById("reasons").textContent)`)
		if why := o.text("#reasons"); !strings.Contains(why, hostile) || !strings.Contains(why, "failed, retried") {
			t.Errorf("why says %s", why)
		}
		o.press(kb.ArrowRight, kb.ArrowDown)
		o.until("the focus on the second child", `document.activeElement.getAttribute("aria-level") === "2" && document.activeElement.textContent.includes("Service")`)
		o.press(kb.Enter)
		o.until("the owner's why", `document.getElementById("reasons").textContent.includes("No controller reconciles Service. Its owner Deployment.apps stable/pegasus-5 explains it")`)
		o.press(kb.ArrowLeft, kb.ArrowLeft)
		o.until("a closed tree", `document.activeElement.getAttribute("aria-expanded") === "false"`)
		o.checkHarmless()

		// The slider.
		o.until("time to go back", `Number(document.getElementById("slider").max) > 5000`)
		eval[any](o, `document.body.focus(), document.activeElement.blur(), scrollTo(0, 0)`)
		o.reach("#live")
		o.press(" ")
		o.until("the pause", `document.getElementById("live").textContent === "Live" && document.getElementById("state-time").textContent.startsWith("As it was at")`)
		then := o.text("#state-time")
		o.reach("#slider")
		for range 15 {
			o.press(kb.ArrowLeft)
		}
		o.until("an earlier state", `document.getElementById("state-time").textContent !== "`+then+`"`)
		o.press(kb.End)
		o.until("the present", `document.getElementById("clock").textContent === "live" && document.getElementById("state-time").textContent === "Now."`)
	})
}

func TestThePageComesBackAfterARestart(t *testing.T) {
	w := newWorld(t, 5)
	open(t, w, func(o *opened) {
		o.until("marbles", `/In view: [1-9]/.test(document.getElementById("count").textContent)`)
		w.stop()
		o.until("the loss", `/^(re|dis)connect/.test(document.getElementById("connection").textContent)`)
		w.start()
		o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
		before := eval[int](o, `import("./store.js").then((store) => (window.store = store).totals.attempts)`)
		o.until("new attempts", `window.store?.totals.attempts > `+strconv.Itoa(before))
	})
}

func TestThemesWidthsAndMotionFollowThePerson(t *testing.T) {
	w := newWorld(t, 8)
	open(t, w, func(o *opened) {
		ground := func() string { return eval[string](o, "getComputedStyle(document.body).backgroundColor") }
		const light, dark = "rgb(255, 255, 255)", "rgb(17, 22, 29)"
		o.until("marbles", `/In view: [1-9]/.test(document.getElementById("count").textContent)`)
		o.emulate("prefers-color-scheme", "dark")
		if got := ground(); got != dark {
			t.Errorf("where dark is preferred, the ground is %s", got)
		}
		o.reach("#theme")
		o.press(kb.ArrowDown)
		o.until("the chosen theme", `document.documentElement.dataset.theme === "light"`)
		o.do(chromedp.Reload())
		o.until("the remembered theme", `document.documentElement.dataset.theme === "light"`)
		if got := ground(); got != light {
			t.Errorf("after light was chosen, the ground is %s", got)
		}
		o.reach("#theme")
		o.press(kb.ArrowDown)
		o.until("items again", `/In view: [1-9]\d+ events/.test(document.getElementById("count").textContent)`)
		if got := ground(); got != dark {
			t.Errorf("after dark was chosen, the ground is %s", got)
		}
		o.fill()
		o.until("an opened object", `(() => {
			const found = [...document.querySelectorAll("#tree [aria-level='1']")].find((of) => of.textContent.includes("Deployment.apps stable/pegasus-2"));
			if (found?.getAttribute("aria-expanded") === "false") found.querySelector(".twist").click();
			return found?.getAttribute("aria-expanded") === "true" && document.querySelector("#tree [aria-level='2']") && (found.querySelector(".name").click(), true);
		})()`)
		o.until("why", `document.querySelector("#reasons .attempts")`)
		eval[any](o, `document.getElementById("objects").scrollIntoView()`)
		o.picture("page-dark")
		eval[any](o, `scrollTo(0, document.getElementById("streams").offsetTop)`)
		for _, width := range []int64{360, 768} {
			o.do(chromedp.EmulateViewport(width, 800))
			o.until("the diagram in the new width", `document.getElementById("marbles").clientWidth < `+strconv.FormatInt(width, 10))
			if !o.fits() {
				wide := eval[[]string](o, `[...document.querySelectorAll("body *")].filter((of) => of.getBoundingClientRect().right > innerWidth && !of.closest(".scroll, #tree")).map((of) => of.tagName + "#" + of.id + "." + of.className).slice(0, 5)`)
				t.Errorf("at %d pixels the page scrolls to the side, because of %q", width, wide)
			}
			if width == 360 {
				o.picture("page-narrow")
			}
		}
		o.emulate("prefers-reduced-motion", "reduce")
		drawn := eval[[]float64](o, `import("./marbles.js").then(async ({frames}) => { await new Promise((done) => setTimeout(done, 500)); frames.at.length = 0; await new Promise((done) => setTimeout(done, 3000)); return frames.at; })`)
		if len(drawn) > 10 { // Without it there are more than 90.
			t.Errorf("with reduced motion it draws %d frames in 3 s", len(drawn))
		}
		o.checkHarmless()
	})
}

func TestAHostileNameIsShownAsText(t *testing.T) {
	w := newWorld(t, 1)
	open(t, w, func(o *opened) {
		o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
		eval[any](o, `window.hostile = `+strconv.Quote(hostile))
		eval[any](o, `import("./store.js").then(({ingest}) => {
			const t = Date.now(), of = {kind: hostile, ns: hostile, name: hostile, rv: hostile};
			ingest({t, events: [{...of, t, received: t - 5, type: hostile, coalesced: 0}], changes: [{...of, t, change: hostile}],
				attempts: [{id: hostile, controller: hostile, ns: hostile, name: hostile, started: t, took: 1, outcome: hostile, error: hostile, causes: [of], writes: [{...of, t, verb: hostile}]}]});
		})`)
		o.until("the hostile item by keyboard", `(() => {
			document.getElementById("marbles").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown"}));
			return document.getElementById("detail").textContent.includes(hostile);
		})()`)
		o.press(kb.Enter)
		o.checkHarmless()
	})
}

func TestAnotherLineIsChosenWithoutLeavingTheTimeInView(t *testing.T) {
	w := newWorld(t, 1)
	open(t, w, func(o *opened) {
		o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
		// The change of the event comes after the time in view, and another change before.
		eval[any](o, `import("./store.js").then(({ingest}) => {
			const t = Date.now(), of = {kind: "Horse", ns: "stable", rv: "1"};
			ingest({t, events: [{...of, name: "late", t: t - 8000, received: t - 8000, type: "Applied", coalesced: 0}],
				changes: [{...of, name: "early", t: t - 8400, change: "updated"}, {...of, name: "late", t: t - 7000, change: "updated"}]});
		})`)
		o.reach("#slider")
		o.press(kb.Home, kb.ArrowRight)
		eval[any](o, `document.activeElement.blur(), scrollTo(0, 0)`)
		o.reach("#marbles")
		o.press(kb.ArrowDown)
		if detail := o.text("#detail"); !strings.Contains(detail, "Event: Horse stable/late") {
			t.Fatalf("the first mark is %s", detail)
		}
		shown := eval[string](o, `document.getElementById("slider").value`)
		o.press(kb.ArrowDown)
		if detail, now := o.text("#detail"), eval[string](o, `document.getElementById("slider").value`); !strings.Contains(detail, "Change of the cache: Horse stable/early") || now != shown {
			t.Errorf("at %s ms instead of %s, the mark below is %s", now, shown, detail)
		}
		o.checkHarmless()
	})
}

func TestFramesStayCheapWith500ItemsASecond(t *testing.T) {
	w := newWorld(t, 4)
	open(t, w, func(o *opened) {
		o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
		// 15 s of the past fill the view, and 500 items a second come.
		cost := eval[[]float64](o, `import("./store.js").then(async ({ingest}) => {
			const {frames} = await import("./marbles.js");
			let n = 0;
			const batch = (t, count) => {
				const events = [], changes = [], attempts = [];
				for (let i = 0; i < count; i++) {
					const at = t - Math.random() * 100, of = {kind: "Deployment.apps", ns: "stable", name: "horse-" + n % 5000, rv: String(1e6 + n++)};
					if (i % 3 === 0) events.push({...of, t: at, received: at - 40, type: "Applied", coalesced: i % 9 ? 0 : 2});
					else if (i % 3 === 1) changes.push({...of, t: at, change: "updated"});
					else attempts.push({id: "a" + n, controller: "stables", ns: of.ns, name: of.name, started: at - 20, took: 20, outcome: i % 20 ? "success" : "error", causes: [of], writes: [{...of, t: at, verb: "patch"}]});
				}
				ingest({t, events, changes, attempts});
			};
			for (let ago = 15000; ago > 0; ago -= 100) batch(Date.now() - ago, 50);
			await new Promise((done) => setTimeout(done, 500));
			frames.script.length = frames.at.length = 0;
			const began = performance.now(), feed = setInterval(() => batch(Date.now(), 50), 100);
			await new Promise((done) => setTimeout(done, 5000));
			clearInterval(feed);
			const script = [...frames.script].sort((a, b) => a - b);
			return [script.length / (performance.now() - began) * 1000, script[script.length >> 1], script[Math.floor(script.length * 0.99)], script[script.length - 1]];
		})`)
		t.Logf("%.0f frames drawn a second; script time of a frame: median %.2f ms, p99 %.2f ms, longest %.2f ms", cost[0], cost[1], cost[2], cost[3])
		if cost[1] > 8 {
			t.Errorf("the median frame takes %.1f ms of script; 60 frames a second leave 16.7 ms", cost[1])
		}
	})
}
