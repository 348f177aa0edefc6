package report

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPrometheusLeavesNothingBehind(t *testing.T) {
	dir := runWithSeries(t)
	tool(t, "prometheus", "prometheus")
	temporary, before := t.TempDir(), filesOf(t, dir)
	t.Setenv("TMPDIR", temporary)
	var url string
	failure := errors.New("what it was for failed")
	err := withPrometheus(t.Context(), complete(t, dir), func(_ context.Context, prometheus running) error {
		url = prometheus.url
		if copies, err := os.ReadDir(temporary); err != nil || len(copies) != 1 {
			t.Errorf("there is no copy: %v, %v", copies, err)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("it ended with %v", err)
	}
	if copies, err := os.ReadDir(temporary); err != nil || len(copies) != 0 {
		t.Errorf("a copy is left: %v, %v", copies, err)
	}
	if answer, err := http.Get(url + "/-/ready"); err == nil {
		_ = answer.Body.Close()
		t.Error("the process is left")
	}
	if after := filesOf(t, dir); after != before {
		t.Errorf("the run changed from\n%s\nto\n%s", before, after)
	}
}

func TestAPrometheusThatEndsByItselfSaysWhy(t *testing.T) {
	programs, dir := t.TempDir(), copyOfRun(t)
	if err := os.WriteFile(filepath.Join(programs, "prometheus"), []byte("#!/bin/sh\necho the data is damaged >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "prometheus"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs)
	err := withPrometheus(t.Context(), complete(t, dir), func(context.Context, running) error {
		t.Error("it was never ready, but is used")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the data is damaged") {
		t.Errorf("it ended with %v", err)
	}
}
