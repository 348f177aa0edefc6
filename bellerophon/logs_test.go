package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

// runDisturbed is a program with the log of the operator, in which much goes wrong: reconcilers fail and panic, and
// libraries log what they like.
func runDisturbed() int {
	root := &cobra.Command{Use: "disturbed", RunE: func(command *cobra.Command, _ []string) error {
		logger, err := logging.New(os.Stderr, slog.LevelDebug, "json")
		if err != nil {
			return err
		}
		klog.Errorf("client-go says: %s\nin two lines", `"quoted"`)
		klog.ErrorS(errors.New("no\n\xff"), "client-go has keys", "of any", struct{ Type func() }{}, "and no value")
		log.Printf("the standard library says {\n}")
		slog.Warn("a library has the default logger")
		return disturb(command.Context(), logger)
	}}
	root.Flags().String("log-format", "text", "")
	return command.Run(root)
}

// disturb runs a manager until its reconcilers have failed and panicked.
func disturb(ctx context.Context, logger *slog.Logger) error {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	for _, name := range []string{"fails", "panics"} {
		if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}); err != nil {
			return err
		}
	}
	ended := make(chan string, 100)
	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
		Logger: logger, OnResult: func(result operators.Result) { ended <- result.Name },
	})
	if err != nil {
		return err
	}
	reconcile := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		controller.Logger(ctx).Info("a reconciler says\nthis")
		if request.Name == "panics" {
			panic("a reconciler\npanics \"here\"")
		}
		return 0, operators.Terminal(errors.New("a reconciler\nfails \"here\""))
	}
	if err := manager.Add("maps", reconcile, controller.For(&corev1.ConfigMap{})); err != nil {
		return err
	}
	group := lifecycle.New(ctx)
	group.Go("manager", manager.Run)
	for seen := map[string]bool{}; len(seen) < 2; {
		seen[<-ended] = true
	}
	group.Stop()
	return errors.Join(group.Wait(), errors.New("the program\nfails"))
}

// rude is an API server that warns, refuses and answers nonsense.
func rude(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Warning", `299 - "a warning"`)
	if request.URL.Query().Get("limit") != "" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{nonsense\n")
		return
	}
	http.Error(w, "a refusal\nin two lines", http.StatusForbidden)
}

func TestEachLineOfALogInJSONIsARecord(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(rude))
	t.Cleanup(server.Close) // The subtests run after this function.
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "rude", "cluster": {"server": %q}}], "users": [{"name": "me", "user": {"token": "none"}}],
		"contexts": [{"name": "rude", "context": {"cluster": "rude", "user": "me"}}], "current-context": "rude"}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	operator := func(more ...string) []string {
		return append([]string{"bellerophon", "operator", "--kubeconfig", kubeconfig, "--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0"}, more...)
	}
	for name, test := range map[string]struct {
		arguments []string
		until     string   // is stopped after this record; empty if it ends by itself
		messages  []string // of records that must be there
	}{
		"an operator": {operator("--log-format", "json", "--log-level", "debug"), "source or map function failed", []string{
			"listening", "operator started", "Warning: a warning", "source or map function failed", "operator stopped",
		}},
		"a program that is disturbed": {[]string{"disturbed", "--log-format", "json"}, "", []string{
			"client-go says: \"quoted\"\nin two lines", "client-go has keys", "the standard library says {\n}", "a library has the default logger",
			"a reconciler says\nthis", "reconcile failed", "reconcile panicked", "the program has failed",
		}},
		"an option out of its range":  {operator("--log-format=json", "--workers", "5000"), "", []string{"the program has failed"}},
		"an option that is no number": {operator("--workers", "many", "--log-format", "json"), "", []string{"the program has failed"}},
		"an option that is unknown":   {operator("--unknown", "--log-format=json"), "", []string{"the program has failed"}},
		"a level that is unknown":     {operator("--log-level", "loud", "--log-format=json"), "", []string{"the program has failed"}},
		"no kubeconfig":               {[]string{"bellerophon", "operator", "--kubeconfig", "nowhere", "--log-format", "json"}, "", []string{"the program has failed"}},
		"a server that has no data":   {[]string{"bellerophon", "server", "--data", kubeconfig, "--log-format", "json"}, "", []string{"the program has failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := recordsOf(t, test.arguments, test.until)
			for _, message := range test.messages {
				if seen[message] == 0 {
					t.Errorf("no record says %q; the log has %v", message, seen)
				}
			}
		})
	}
}

// recordsOf runs a program and returns the number of records with each message. It fails for a line that is no record.
// The program is stopped after a record with the message until.
func recordsOf(t *testing.T, arguments []string, until string) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	program := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	stderr, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for lines := bufio.NewReader(stderr); ; {
		line, err := lines.ReadString('\n')
		if line == "" && errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the log ends with %q: %v", line, err)
		}
		record := map[string]any{}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("a line is no JSON object: %v: %s", err, line)
			continue
		}
		message, isText := record["msg"].(string)
		var level slog.Level
		if at, _ := record["time"].(string); !isText || level.UnmarshalText([]byte(fmt.Sprint(record["level"]))) != nil || !isTime(at) {
			t.Errorf("a record lacks its time, level or message: %s", line)
		}
		if strings.HasSuffix(message, " Body") {
			t.Errorf("client-go logs a body, which may have a value of a Secret or a token: %s", line)
		}
		if seen[message]++; message == until && seen[message] == 1 {
			if err := program.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	err = program.Wait()
	if failed := (*exec.ExitError)(nil); (until == "") != errors.As(err, &failed) || ctx.Err() != nil {
		t.Errorf("%s ends with %v", strings.Join(arguments, " "), err)
	}
	return seen
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}
