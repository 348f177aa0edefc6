package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/up"
)

// upHeroes runs bellerophon up --heroes 1 --until-settled, and returns what it prints.
func upHeroes(t *testing.T, timeout time.Duration, isScraped bool) (said string, err error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	failed := up.Run(t.Context(), up.Options{
		Heroes: 1, Replicas: 1, UntilSettled: true, Timeout: timeout, Namespace: "default", MetricsAddress: "127.0.0.1:0", Prometheus: isScraped, Stdout: file, Stderr: file,
	})
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(content), failed
}

func TestAHeroOfUpSurvivesTheLossOfItsLeader(t *testing.T) {
	said, err := upHeroes(t, 2*time.Minute, false)
	if strings.Contains(said, "the node is simulated instead") {
		t.Skip("no real node can run here: " + said)
	}
	if err != nil || !strings.Contains(said, "its leader, is killed") || !strings.Contains(said, "horse is still pegasus") {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestOnASimulatedNodeUpSaysThatNoMemberOfAHeroRuns(t *testing.T) {
	programs := t.TempDir() // It has no containerd. The control plane is built already.
	prometheus, err := exec.LookPath("prometheus")
	if err == nil {
		err = os.Symlink(prometheus, filepath.Join(programs, "prometheus"))
	}
	t.Setenv("PATH", programs)
	isScraped := err == nil
	said, err := upHeroes(t, 3*time.Second, isScraped)
	if err == nil || !strings.Contains(err.Error(), "hero-1 is not running after 3s") {
		t.Errorf("the error is %v", err)
	}
	if isScraped && !strings.Contains(said, "Prometheus scrapes the operator") {
		t.Errorf("it does not start a Prometheus:\n%s", said)
	}
	for _, want := range []string{"no real node can run on this machine", "no member of a hero runs", "Bootstrapping"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}
