package election_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

// replicaVariable has the settings of a replica, for a process of this test that runs one.
const replicaVariable = "BELLEROPHON_TEST_REPLICA"

// replicaSettings are the settings of a replica that is a process.
type replicaSettings struct {
	Kubeconfig, Namespace string
	Election              controller.LeaderElection
	Every                 time.Duration // between the writes to an object
}

// identityOf returns the identity of a replica that is a process.
func identityOf(pid int) string { return fmt.Sprintf("process-%d", pid) }

// runReplica runs a replica until the process gets SIGTERM or the test has ended. It writes to each ConfigMap
// that it is the writer, without a condition, again and again.
func runReplica(text string) (code int) {
	if err := replicaUntilTheEnd(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func replicaUntilTheEnd(text string) error {
	var settings replicaSettings
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", settings.Kubeconfig)
	if err != nil {
		return err
	}
	settings.Election.Identity = identityOf(os.Getpid())
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{settings.Namespace}, LeaderElection: settings.Election,
		UserAgent: settings.Election.Identity, // The audit log names the process by it.
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, nil)), OnError: func(error) {},
	})
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{"by":%q}},"data":{"n":"%%d"}}`, settings.Election.Identity)
	err = manager.Add("writer", func(ctx context.Context, request operators.Request) (time.Duration, error) {
		made := fmt.Appendf(nil, string(body), time.Now().UnixNano())
		_, err := controller.Patch(ctx, manager.Client(), objectOf(request.NamespacedName), controller.RawPatch(types.MergePatchType, made))
		return settings.Every, err
	}, controller.For(&corev1.ConfigMap{}, controller.LabelSelector("written=yes")), controller.IgnoreEchoes())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	group := lifecycle.New(ctx)
	group.Go("the test", func(context.Context) error {
		_, _ = io.Copy(io.Discard, os.Stdin) // It ends with the test, however that ends.
		os.Exit(0)
		return nil
	})
	return manager.Run(ctx)
}

func objectOf(name types.NamespacedName) *corev1.ConfigMap {
	made := config(name.Name)
	made.Namespace = name.Namespace
	return made
}
