package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

func config(horse, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}, Data: map[string]string{horseKey: horse}}
}

func TestOnlyADifferenceIsWrittenAndOnlyAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hero := &v1.BellerophonSimple{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.BellerophonSimpleSpec{WingedHorseName: "arion"}}
		leaving := hero.DeepCopy()
		leaving.DeletionTimestamp = &metav1.Time{Time: began}
		for name, test := range map[string]struct {
			hero  *v1.BellerophonSimple
			seen  *corev1.ConfigMap
			wants bool
		}{
			"none":        {hero, nil, true},
			"the same":    {hero, config("arion", "1"), false},
			"another":     {hero, config(drifted, "1"), true},
			"of deletion": {leaving, nil, false},
		} {
			start, written := time.Now(), ""
			err := repair(t.Context(), test.hero, test.seen, time.Second, func(_ context.Context, _, want *corev1.ConfigMap) error {
				written = want.Data[horseKey]
				return nil
			})
			if err != nil || (written == "arion") != test.wants {
				t.Errorf("%s: wrote %q: %v; want a write: %v", name, written, err, test.wants)
			}
			if took := time.Since(start); (took == time.Second) != test.wants {
				t.Errorf("%s: it took %v", name, took)
			}
		}
	})
}

func TestAReactionEndsWithTheFirstEventThatUndoesTheChange(t *testing.T) {
	l := newLoad(nil, 1)
	l.see(config("pegasus", "5"), at(0))
	l.wait("a", change{horse: "pegasus", after: 7, at: at(10)}) // The drift has version 7.
	l.see(config("pegasus", "6"), at(11))                       // An older event.
	l.see(config(drifted, "7"), at(12))
	if got := l.take(); len(got) != 0 {
		t.Fatalf("the reactions are %v before the repair", got)
	}
	l.see(config("pegasus", "8"), at(25))
	if got := l.take(); !slices.Equal(got, []time.Duration{15 * time.Millisecond}) {
		t.Errorf("the reactions are %v, want 15 ms", got)
	}
	l.see(config("arion", "9"), at(30))
	l.wait("a", change{horse: "arion", at: at(31)}) // The repair was seen before the answer to the change.
	if got := l.take(); !slices.Equal(got, []time.Duration{0}) {
		t.Errorf("the reactions are %v, want 0", got)
	}
}

func TestChangesWaitForARepairOnceAllObjectsHaveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(nil, 2)
		l.wait(name(0), change{horse: "arion"})
		if got := l.free(); got != 1 {
			t.Errorf("the free object is %d, want 1", got)
		}
		l.wait(name(1), change{horse: "arion"})
		start := time.Now()
		group := lifecycle.New(t.Context())
		group.Go("until", func(ctx context.Context) error { return l.until(ctx, 1) })
		time.AfterFunc(time.Minute, func() {
			made := config("arion", "1")
			made.Name = name(0)
			l.see(made, time.Now())
		})
		if err := group.Wait(); err != nil || time.Since(start) != time.Minute {
			t.Errorf("it waited %v: %v, want a minute", time.Since(start), err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("too late"))
		if err := l.until(ctx, 0); err == nil || !strings.Contains(err.Error(), "1 changes are not repaired: too late") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestTrafficIsOfTheWindowAndAMinute(t *testing.T) {
	record := proxy.Record{
		Calls: []proxy.Call{
			{At: at(-1), Verb: "list", Resource: "sheroes", Out: 1000},
			{At: at(0), Verb: "list", Resource: "sheroes", Out: 100},
			{At: at(1), Verb: "patch", Resource: "configmaps", In: 10, Out: 20},
			{At: at(2), Verb: "watch", Resource: "configmaps", Out: 5000}, // The bytes of a watch are counted with its events.
			{At: at(3), Verb: "", Name: "/version", Out: 5000},
			{At: at(500), Verb: "list", Resource: "sheroes", Out: 1000},
		},
		Events: []proxy.Event{{At: at(10), Bytes: 3}, {At: at(500), Bytes: 1000}},
	}
	if got, want := trafficIn(record, at(0), at(500)), (Traffic{Requests: 360, Writes: 120, Bytes: 15960}); got != want {
		t.Errorf("the traffic is %+v, want %+v", got, want)
	}
}

func TestThePercentilesAreOfTheSortedReactions(t *testing.T) {
	var reactions []time.Duration
	for i := range 200 {
		reactions = append(reactions, time.Duration(200-i)*time.Second)
	}
	var cell Cell
	cell.react(reactions)
	if cell.Median != 100 || cell.P99 != 198 || cell.Changes != 200 {
		t.Errorf("the cell is %+v, want a median of 100 s and a p99 of 198 s of 200", cell)
	}
	cell.react(nil)
	if cell.Median != 0 || cell.P99 != 0 || cell.Changes != 0 {
		t.Errorf("without reactions the cell is %+v", cell)
	}
}

func TestTheMeasurementIsBounded(t *testing.T) {
	for limit, settings := range map[time.Duration]Settings{15 * time.Minute: usual, time.Minute: quick} {
		if err := settings.validate(); err != nil {
			t.Error(err)
		}
		if got := settings.duration(); got > limit*2/3 {
			t.Errorf("the cells take %v, want at most two thirds of %v", got, limit)
		}
	}
}

func TestSettingsThatAreOutOfRangeAreRefusedWithTheirFlag(t *testing.T) {
	for flag, spoil := range map[string]func(*Settings){
		"--workers":      func(s *Settings) { s.Workers = []int{4, 1} },
		"--intervals":    func(s *Settings) { s.Intervals = []time.Duration{time.Millisecond} },
		"--poll-workers": func(s *Settings) { s.PollWorkers = 0 },
		"--objects":      func(s *Settings) { s.Objects = 1 },
		"--rate":         func(s *Settings) { s.Rate = 0 },
		"--outside":      func(s *Settings) { s.Outside = -1 },
	} {
		settings := usual
		spoil(&settings)
		if err := settings.validate(); err == nil || !strings.HasPrefix(err.Error(), flag+" is ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestAResultIsReadBackFromItsFileAndItsTableHasARowForEachCell(t *testing.T) {
	result := Result{Settings: quick, Note: "a note", Cells: quick.cells()}
	file := filepath.Join(t.TempDir(), "edge.json")
	if err := result.writeFile(file); err != nil {
		t.Fatal(err)
	}
	again, err := readResult(file)
	if err != nil || len(again.Cells) != 4 || again.Cells[3] != result.Cells[3] || again.Note != "a note" {
		t.Errorf("read %+v: %v", again, err)
	}
	var table, text bytes.Buffer
	if err := errors.Join(again.print(&table, false), again.print(&text, true)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"events, 4 workers", "polling each 500ms"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if err := json.Unmarshal(text.Bytes(), &again); err != nil {
		t.Error(err)
	}
}

// The page docs/edge.md shows the newest kept result.
func TestTheFigureOfThePageShowsTheKeptResult(t *testing.T) {
	files, err := filepath.Glob("results/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no results: %v", err)
	}
	result, err := readResult(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	want, err := result.figure().SVG()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "edge.svg"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/edge.svg is not drawn from %s (%v); draw it again: docs/edge.md has the command", files[len(files)-1], err)
	}
	if strings.Contains(string(want), "NaN") || strings.Count(string(want), "<polyline") != 8 {
		t.Errorf("the figure has %d lines, want 8", strings.Count(string(want), "<polyline"))
	}
}
