package hero

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/server"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

// asMember has the options of a member. A test program with this variable is that member.
const asMember = "BELLEROPHON_TEST_MEMBER"

func TestMain(m *testing.M) {
	if text := os.Getenv(asMember); text != "" {
		os.Exit(runMember(text))
	}
	clustertest.Main(m)
}

func runMember(text string) int {
	var given memberOptions
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	options := given.server()
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := server.Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
