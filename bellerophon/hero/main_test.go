package hero

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/server"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// asMember has the options of a member. A test program with this variable is that member.
	asMember = "BELLEROPHON_TEST_MEMBER"
	// asOperator has the path of the file with the members' addresses. A test program with this variable is the operator,
	// for the cluster of $KUBECONFIG.
	asOperator = "BELLEROPHON_TEST_OPERATOR"
)

func TestMain(m *testing.M) {
	run, text := runMember, os.Getenv(asMember)
	if text == "" {
		run, text = runOperator, os.Getenv(asOperator)
	}
	if text == "" {
		clustertest.Main(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, text)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, member.ErrDamaged) {
			os.Exit(client.ExitDamaged) // As the program does.
		}
		os.Exit(1)
	}
}

func runMember(ctx context.Context, text string) error {
	var given memberOptions
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return err
	}
	options := given.server()
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	return server.Run(ctx, options)
}

func runOperator(ctx context.Context, file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	manager, err := controller.NewManager(config, schemeOfTests(), controller.Options{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		return err
	}
	if _, err := addTo(manager, owned.KindsOf(Fields()), func(ctx context.Context, pod *corev1.Pod) (net.Conn, error) {
		return hosts(file).dial(ctx, string(pod.UID))
	}); err != nil {
		return err
	}
	return manager.Run(ctx)
}
