package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/up"
	"github.com/bellerophon-io/bellerophon/internal/promserver"
	"github.com/rogpeppe/go-internal/testscript"
)

// scraped runs bellerophon up --prometheus with further arguments, after the number of the operator's processes. It checks
// the Prometheus, interrupts the command, and checks that nothing of the Prometheus is left.
func scraped(ts *testscript.TestScript, _ bool, args []string) {
	processes, err := strconv.Atoi(args[0])
	ts.Check(err)
	command := exec.Command(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "bellerophon"), append([]string{"up", "--prometheus"}, args[1:]...)...)
	temporary := ts.MkAbs("temporary")
	ts.Check(os.MkdirAll(temporary, 0o700))
	command.Env = append(os.Environ(), "XDG_CACHE_HOME="+ts.Getenv("XDG_CACHE_HOME"), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "TMPDIR="+temporary)
	out, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	var server string
	for lines := bufio.NewScanner(out); server == "" && lines.Scan(); {
		_, server, _ = strings.Cut(lines.Text(), "Prometheus scrapes the operator, with its rules and alerts: ")
	}
	found := errors.New("up never printed the URL of a Prometheus")
	if server != "" {
		found = checkPrometheus(server, processes)
	}
	_ = command.Process.Signal(syscall.SIGINT) // It may have ended.
	_, _ = io.Copy(io.Discard, out)
	ts.Check(errors.Join(found, command.Wait(), checkGone(server, temporary)))
}

// checkPrometheus returns an error unless a Prometheus has all rules, scrapes some processes, and has recorded a series with
// an exemplar.
func checkPrometheus(server string, processes int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := errors.Join(checkRules(ctx, server), checkTargets(ctx, server, processes), checkSeries(ctx, server))
		if err == nil {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func checkRules(ctx context.Context, server string) error {
	var loaded struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := promserver.Ask(ctx, server, "/api/v1/rules", &loaded); err != nil {
		return err
	}
	count := 0
	for _, group := range loaded.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				return fmt.Errorf("the rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
			count++
		}
	}
	if count < 30 {
		return fmt.Errorf("%d rules are loaded, want all", count)
	}
	return nil
}

func checkTargets(ctx context.Context, server string, processes int) error {
	var scraped struct {
		ActiveTargets []struct{ Health, LastError string }
	}
	if err := promserver.Ask(ctx, server, "/api/v1/targets", &scraped); err != nil {
		return err
	}
	if len(scraped.ActiveTargets) != processes || slices.ContainsFunc(scraped.ActiveTargets, func(t struct{ Health, LastError string }) bool { return t.Health != "up" }) {
		return fmt.Errorf("the targets are %+v, want %d that are up", scraped.ActiveTargets, processes)
	}
	return nil
}

func checkSeries(ctx context.Context, server string) error {
	const query = "namespace_controller:controller_runtime_reconcile:rate5m"
	if found, err := promserver.Query(ctx, server, query); err != nil || found == 0 {
		return fmt.Errorf("%s has %d series: %w", query, found, err)
	}
	var found []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	now := time.Now()
	err := promserver.Ask(ctx, server, "/api/v1/query_exemplars?"+url.Values{
		"query": {"controller_runtime_reconcile_time_seconds_bucket"},
		"start": {strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
	}.Encode(), &found)
	if err != nil || len(found) == 0 || found[0].Exemplars[0].Labels["reconcile_id"] == "" {
		return fmt.Errorf("the exemplars are %+v: %w", found, err)
	}
	return nil
}

// checkGone returns an error if something listens at a URL, or if a folder is not empty.
func checkGone(server, folder string) error {
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		return fmt.Errorf("%v is left in %s: %w", left, folder, err)
	}
	if connection, err := net.Dial("tcp", strings.TrimPrefix(server, "http://")); err == nil {
		return errors.Join(fmt.Errorf("a Prometheus still listens at %s", server), connection.Close())
	}
	return nil
}

func TestWithoutAPrometheusUpSaysHowToInstallOne(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := up.Run(t.Context(), up.Options{
		Replicas: 1, Timeout: time.Minute, Namespace: "default", MetricsAddress: "127.0.0.1:0", Prometheus: true, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err == nil || !strings.Contains(err.Error(), "--prometheus: find prometheus on the PATH: no such program; install it (on Debian: apt-get install prometheus)") {
		t.Errorf("the error is %v", err)
	}
}

// TestAPrometheusThatEndsByItselfEndsUp replaces the program by one that fails.
func TestAPrometheusThatEndsByItselfEndsUp(t *testing.T) {
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "prometheus"), []byte("#!/bin/sh\necho no space left >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	file, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	err = up.Run(t.Context(), up.Options{
		Replicas: 1, Timeout: time.Minute, Namespace: "default", MetricsAddress: "127.0.0.1:0", Prometheus: true, Stdout: file, Stderr: file,
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the error is %v", err)
	}
}
