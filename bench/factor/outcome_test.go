package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// sample returns an outcome with one attempt, a calm of 1.05 s, another attempt, and a calm of a
// minute.
func sample() outcome {
	recorded := recording{from: at(0), until: at(2 * time.Minute), spans: []span{
		{at(0), at(time.Second), 100 * ms, true}, {at(2050 * ms), at(time.Minute), 20 * ms, false},
	}, rises: []gap{{length: 50 * ms, loop: 100 * ms}, {length: time.Minute, loop: 20 * ms, open: true}}}
	return outcome{Kubernetes: "v1.35.0", Processors: 2, Floor: 0.01, Scenarios: []measured{
		measure("burst", []recording{recorded}), measure(allScenarios, []recording{recorded, recorded}),
	}}
}

func TestAllScenariosAreTheSumOfTheirRecordings(t *testing.T) {
	outcome := sample()
	one, all := outcome.Scenarios[0], outcome.Scenarios[1]
	if one.Attempts != 2 || one.Gaps != 2 || one.Seconds != 120 || one.Settled != (observed{Rises: 2, Premature: 1, Soon: 1}) {
		t.Errorf("measured %+v, want 2 attempts and gaps in 120 s, and one of two rises premature", one)
	}
	if all.Attempts != 4 || all.Gaps != 4 || all.Seconds != 240 || all.Settled != (observed{Rises: 4, Premature: 2, Soon: 2}) {
		t.Errorf("measured %+v of all, want twice as much", all)
	}
	for i, factor := range factors {
		if all.Factors[i].Factor != factor || all.Factors[i].Rises != 2*one.Factors[i].Rises {
			t.Errorf("factor %v has %+v, and of all %+v, want twice as many rises", factor, one.Factors[i], all.Factors[i])
		}
	}
}

func TestTheOutcomeIsLinesOnAPipeOrJSON(t *testing.T) {
	var out bytes.Buffer
	if err := sample().print(&out, false, screen.To(&out)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"burst\t10\t2\t1 (50.0 %)\t1\t1 (50.0 %)\t1\t200ms\t1s\t\n",
		"burst\t100\t1\t0 (0.0 %)\t0\t0 (0.0 %)\t0\t2s\t2s\t\n",
		"all\t240 s\t4\t4\t20ms\t4\t2\t2\t\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed\n%s\nwant a line %q", out.String(), want)
		}
	}
	out.Reset()
	if err := sample().print(&out, true, screen.To(&out)); err != nil {
		t.Fatal(err)
	}
	var read outcome
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || len(read.Scenarios) != 2 || len(read.Scenarios[1].Factors) != len(factors) {
		t.Errorf("printed %s (%v), want two scenarios with all factors", out.String(), err)
	}
}

func TestThePictureIsSmallAndWellFormedAndNeedsNothingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "factor.svg")
	for name, outcome := range map[string]outcome{
		"two scenarios": sample(),
		"no rise":       {Scenarios: []measured{measure(allScenarios, nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := outcome.draw(file); err != nil {
				t.Fatal(err)
			}
			drawn, err := os.ReadFile(file)
			if err != nil || len(drawn) > 20_000 {
				t.Errorf("the picture has %d bytes (%v), want at most 20,000", len(drawn), err)
			}
			decoder := xml.NewDecoder(bytes.NewReader(drawn))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for _, bad := range []string{"NaN", "Inf", "href", "script", "url(", "@import"} {
				if bytes.Contains(drawn, []byte(bad)) {
					t.Errorf("the picture has %q", bad)
				}
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for list, want := range map[string]int{"burst": 1, "drift,churn": 2, "burst,burst": 0, "": 0, "nothing": 0, "burst,": 0} {
		if got, err := selectScenarios(list); len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("selectScenarios(%q) = %v (%v), want %d", list, got, err, want)
		}
	}
	for load, valid := range map[time.Duration]bool{0: false, 2 * time.Second: false, 3 * time.Second: true, time.Hour: true, 2 * time.Hour: false} {
		if err := (options{load: load}).validate(); (err == nil) != valid {
			t.Errorf("a load of %v gives %v", load, err)
		}
	}
	folder := t.TempDir()
	for svg, valid := range map[string]bool{"a.svg": true, filepath.Join(folder, "a.svg"): true, filepath.Join(folder, "none", "a.svg"): false} {
		if err := (options{load: time.Minute, svg: svg}).validate(); (err == nil) != valid {
			t.Errorf("a picture in %s gives %v", svg, err)
		}
	}
}
