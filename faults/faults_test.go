package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/faults"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestMain runs the naive operator if a test has started this process for that.
func TestMain(m *testing.M) {
	if mistake := os.Getenv(mistakeVariable); mistake != "" {
		if err := operate(mistake); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clustertest.Main(m)
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// copier is an operator that copies ConfigMaps to Secrets, with a mistake.
func copier(mistake string) faults.Subject {
	create := func(value string) func(context.Context, *faults.User) error {
		return func(ctx context.Context, user *faults.User) error {
			return user.Create(ctx, configMaps, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"v": value},
			})
		}
	}
	return faults.Subject{
		Name: "copier",
		Command: func(kubeconfig string) *exec.Cmd {
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), mistakeVariable+"="+mistake, "KUBECONFIG="+kubeconfig)
			return command
		},
		Kinds: []schema.GroupVersionResource{configMaps, secrets},
		Workload: []faults.Step{
			{Name: "create", Do: create("1"), Done: copied(1)},
			{Name: "change", Do: func(ctx context.Context, user *faults.User) error {
				return user.Patch(ctx, configMaps, "x", `{"data":{"v":"2"}}`)
			}, Done: copied(2)},
			{Name: "delete", Do: func(ctx context.Context, user *faults.User) error { return user.Delete(ctx, configMaps, "x") }, Done: copied(0)},
			{Name: "create again", Do: create("3"), Done: copied(3)},
		},
	}
}

// copied checks that there is a Secret with a value, or none for 0.
func copied(value int) func(faults.State) error {
	return func(seen faults.State) error {
		found := 0
		for key, object := range seen {
			if !strings.HasPrefix(key, "secrets/") {
				continue
			}
			found++
			if content, _, _ := unstructured.NestedString(object.Object, "data", "v"); content == []string{"", "MQ==", "Mg==", "Mw=="}[value] {
				return nil
			}
		}
		if value == 0 && found == 0 {
			return nil
		}
		return fmt.Errorf("of %d Secrets none has the value %d", found, value)
	}
}

type pattern func(context.Context, *rest.Config, faults.Subject, faults.Options) (*faults.Report, error)

func TestTheHarnessFindsMistakesAndNoneWhereThereIsNone(t *testing.T) {
	for _, test := range []struct {
		mistake string
		through pattern
		cases   string // the cases that find it
		sample  int    // of them
		found   string // what they say; empty for nothing
	}{
		{noMistake, faults.Kills, "", 3, ""},
		{noMistake, faults.Stale, "", 4, ""},
		{noMistake, faults.Streams, "410 by status", 0, ""},
		{duplicates, faults.Kills, "create secrets . #2, after commit", 0, "the end state differs"},
		{halfDone, faults.Kills, "create secrets . #2, after commit", 0, "the end state differs"},
		{blindDeletion, faults.Stale, "secrets/x #3, restart on the view", 0, "the operator has seen"},
		{blindUpdate, faults.Stale, "secrets/x #2, restart on the view", 0, "the operator has seen"},
		{forgetsDeletion, faults.Kills, "delete secrets x #1, before", 0, "of 1 Secrets none"},
		{givesUp, faults.Streams, "500", 0, "of 1 Secrets none"},
		{hotLoop, faults.Streams, "refused by a webhook for 2 s", 0, "at most"},
	} {
		t.Run(test.mistake, func(t *testing.T) {
			options := faults.Options{
				Only: regexp.MustCompile(test.cases), Sample: test.sample, Quiet: 200 * time.Millisecond, Patience: 20 * time.Second, Progress: func(line string) { t.Log(line) },
			}
			if test.found != "" { // It waits in vain.
				options.Patience = 3 * time.Second
			}
			report, err := test.through(t.Context(), clustertest.Shared(t).AdminConfig(), copier(test.mistake), options)
			if err != nil {
				t.Fatal(err)
			}
			struck, survived := report.Struck()
			failures := strings.Join(report.Failures(), "\n")
			switch {
			case struck == 0:
				t.Error("no fault happened")
			case test.found == "" && (failures != "" || survived != struck):
				t.Errorf("it survived %d of %d faults:\n%s", survived, struck, failures)
			case !strings.Contains(failures, test.found):
				t.Errorf("found %q, want %q", failures, test.found)
			}
		})
	}
}

func TestASubjectThatLacksSomethingIsRefusedByName(t *testing.T) {
	for lacks, change := range map[string]func(*faults.Subject, *faults.Options){
		"Subject.Name":     func(s *faults.Subject, _ *faults.Options) { s.Name = "" },
		"Subject.Command":  func(s *faults.Subject, _ *faults.Options) { s.Command = nil },
		"Subject.Kinds":    func(s *faults.Subject, _ *faults.Options) { s.Kinds = nil },
		"Subject.Workload": func(s *faults.Subject, _ *faults.Options) { s.Workload = s.Workload[:1] },
		"step 2":           func(s *faults.Subject, _ *faults.Options) { s.Workload[1].Done = nil },
		"Patience":         func(_ *faults.Subject, o *faults.Options) { o.Patience = time.Millisecond },
		"Sample":           func(_ *faults.Subject, o *faults.Options) { o.Sample = -1 },
	} {
		subject, options := copier(noMistake), faults.Options{}
		change(&subject, &options)
		if _, err := faults.Kills(t.Context(), &rest.Config{}, subject, options); err == nil || !strings.Contains(err.Error(), lacks) {
			t.Errorf("without %s: %v", lacks, errors.Join(err))
		}
	}
}
