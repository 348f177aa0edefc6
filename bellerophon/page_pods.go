package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// probePause is the time between two looks at the pod that serves the page.
const probePause = 2 * time.Second

// followLeader sends the server of the pod that leads to leaders, and calls each with its states. It goes on with another pod as soon
// as that one leads, and returns an error when its pod does not answer any more.
func (a *asked) followLeader(ctx context.Context, leaders chan<- ask.Server, each func(introspection.State) error) error {
	forwards := lifecycle.New(ctx)
	end := func(group *lifecycle.Group) {
		group.Stop()
		_ = group.Wait() // A forward that ends with its context has no news.
	}
	defer func() { end(forwards) }()
	server, state, err := a.leader(ctx, forwards)
	if err != nil {
		return err
	}
	for chosen := false; ; {
		if !chosen {
			select {
			case leaders <- server:
				chosen = true
			case <-ctx.Done():
				return nil
			}
		}
		if err := each(state); err != nil {
			return err
		}
		select {
		case <-time.After(probePause):
		case <-ctx.Done():
			return nil
		}
		if err := ask.Ask(ctx, server, stateQuestion, func(now introspection.State) error { state = now; return nil }); err != nil {
			return err
		}
		if state.Leader == nil || state.Leader.Leads {
			continue
		}
		others := lifecycle.New(ctx)
		other, now, err := a.leader(ctx, others)
		if err != nil || now.Leader == nil || !now.Leader.Leads {
			end(others) // The page stays where it is until one leads.
			continue
		}
		end(forwards)
		forwards, server, state, chosen = others, other, now, false
		fmt.Fprintf(os.Stderr, "another pod leads now: %s\n", screen.Clean(now.Leader.Identity))
	}
}
