package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// asMember has the options of a member. A test program with this variable is that member, so that tests can kill
// members as a node's failure does.
const asMember = "BELLEROPHON_TEST_MEMBER"

func TestMain(m *testing.M) {
	if text := os.Getenv(asMember); text != "" {
		os.Exit(runMember(text))
	}
	goleak.VerifyTestMain(m)
}

func runMember(text string) int {
	var options Options
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var quiet = slog.New(slog.DiscardHandler)
