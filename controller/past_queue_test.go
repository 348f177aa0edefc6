package controller

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// pastQueued is an attempt of a recording.
type pastQueued struct {
	ID     string
	Queued *float64 // milliseconds
}

// queuedOf returns the attempts of a recording's last minute by their IDs.
func queuedOf(t *testing.T, get func(path string) (int, io.ReadCloser)) map[string]*float64 {
	t.Helper()
	now := time.Now().UnixMilli()
	items, _ := read[struct{ Attempts []pastQueued }](t, get, fmt.Sprintf("/debug/past/items?limit=5000&from=%d&to=%d", now-60_000, now+1))
	found := map[string]*float64{}
	for _, of := range items.Attempts {
		found[of.ID] = of.Queued
	}
	return found
}

// shownOf returns a number, or nil.
func shownOf(number *float64) any {
	if number == nil {
		return nil
	}
	return *number
}

// untilWhole waits until the writer of a recording has ended, and returns the recording.
func untilWhole(t *testing.T, dir string) *recording.Recording {
	t.Helper()
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		whole, err := recording.Open(dir)
		if err == nil && whole.IsWhole {
			return whole
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the writer does not end: %v", err)
		}
	}
}

// waitsOf adds up the waits of the attempts of an answer, by their IDs and by what they were for, in seconds.
func waitsOf(of history.Answer) map[string]map[string]float64 {
	found := map[string]map[string]float64{}
	for _, attempt := range of.Controllers[0].Attempts {
		found[attempt.ID] = map[string]float64{}
		for _, wait := range attempt.Waits {
			found[attempt.ID][wait.For] += wait.Seconds
		}
	}
	return found
}

// One worker has a hundred objects. The record of an attempt has the same duration as its result, so the queue times are equal to the
// digit. Other waits begin and end at times of records. A busy machine may pause before it takes such a time, so they are not compared.
func TestTheRecordedPastHasTheQueueTimesOfThePresent(t *testing.T) {
	const objects = 100
	dir, results := t.TempDir(), make(chan operators.Result, 10*objects)
	w := newWhyWorld(t, Options{Workers: 1, Recording: &recording.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}, OnResult: func(result operators.Result) { results <- result }})
	for i := range objects {
		if err := w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("pegasus-", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	want, longest := map[string]float64{}, operators.Result{}
	for late := time.After(20 * time.Second); len(want) < 2*objects; { // Each is written once, and its echo comes back.
		select {
		case result := <-results:
			want[operators.AttemptID(result.Controller, result.NamespacedName, result.Started)] = math.Round(float64(result.Queued)/1e3) / 1e3
			if result.Queued > longest.Queued {
				longest = result
			}
		case <-late:
			t.Fatalf("there are %d attempts", len(want))
		}
	}
	if longest.Queued < time.Millisecond { // Why names no shorter one.
		t.Fatalf("no attempt was queued for longer than %v, so the test shows nothing", longest.Queued)
	}
	of := fmt.Sprintf("object=secret/%s&namespace=a", longest.Name)
	live, _ := read[history.Answer](t, w.get, "/debug/why?"+of)
	w.stop()
	whole := untilWhole(t, dir)
	shown := served(t, page.NewPast(dir, scheme.Scheme, false))
	got := queuedOf(t, shown)
	for id, queued := range want {
		if is := got[id]; is == nil || *is != queued {
			t.Errorf("the attempt %s was queued for %v ms, want %v", id, shownOf(is), queued)
		}
	}
	past, text := read[history.Answer](t, shown, fmt.Sprintf("/debug/past/why?at=%d&%s", time.Now().UnixMilli(), of))
	waited := waitsOf(past)
	for id, waits := range waitsOf(live) {
		is := waited[id]
		if _, guessed := is["start"]; guessed || is == nil || math.Abs(is[history.WaitQueue]-waits[history.WaitQueue]) > 1e-9 {
			t.Errorf("the attempt %s waited for %v, want %v; the answer is %s", id, is, waits, text)
		}
	}

	// A recording of an earlier version has no queue times, and says so.
	for _, record := range whole.Records {
		if record.Start != nil {
			record.Start.Queued = 0
		}
	}
	file := filepath.Join(t.TempDir(), "earlier")
	if err := whole.Save(file); err != nil {
		t.Fatal(err)
	}
	shown = served(t, page.NewPast(file, scheme.Scheme, false))
	for id, queued := range queuedOf(t, shown) {
		if queued != nil {
			t.Errorf("without a record, the attempt %s was queued for %v ms", id, *queued)
		}
	}
	past, text = read[history.Answer](t, shown, fmt.Sprintf("/debug/past/why?at=%d&%s", time.Now().UnixMilli(), of))
	for id, waits := range waitsOf(past) {
		if waits[history.WaitQueue] != 0 || waits[history.WaitGate] != 0 {
			t.Errorf("without a record, the attempt %s waited for %v; the answer is %s", id, waits, text)
		}
	}
}
