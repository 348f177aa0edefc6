package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
)

// former forms a cluster of peers without an operator.
//
// The first of the peers makes a cluster of itself, but only once every other peer has answered that it
// belongs to none. So a first peer that lost its volume joins its old cluster again, and waits while it
// cannot ask all of the others. The others join.
type former struct {
	member  *member.Member
	client  *client.Client
	options Options
}

// form returns when the member votes in a cluster, or ctx ends.
func (f *former) form(ctx context.Context) error {
	if !slices.Contains(f.options.Peers, f.options.Address) {
		return fmt.Errorf("the peers %s lack the address of this member, %s", strings.Join(f.options.Peers, ", "), f.options.Address)
	}
	ticker := time.NewTicker(f.options.Election)
	defer ticker.Stop()
	var said string
	for {
		err := f.step(ctx)
		if err == nil {
			return nil
		}
		if err.Error() != said {
			said = err.Error()
			f.options.Log.Info("waiting for a cluster", "reason", said)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// step makes the next step towards a cluster. It returns nil when nothing is left to do.
func (f *former) step(ctx context.Context) error {
	if own := f.member.Status(); own.Role == client.Leader || own.Role == client.Follower {
		return nil
	}
	var silent []string
	for _, peer := range f.options.Peers {
		if peer == f.options.Address {
			continue
		}
		status, err := f.ask(ctx, peer)
		switch {
		case err != nil:
			silent = append(silent, peer)
		case status.Leader != nil:
			return f.join(ctx, peer)
		case status.Cluster != "":
			return fmt.Errorf("%s belongs to a cluster that has no leader at the moment", peer)
		}
	}
	switch {
	case f.member.Status().Cluster != "":
		return errors.New("the cluster of this member has no leader at the moment")
	case f.options.Peers[0] != f.options.Address:
		return fmt.Errorf("the first peer, %s, has not made a cluster", f.options.Peers[0])
	case len(silent) > 0:
		return fmt.Errorf("a first cluster needs an answer of all peers, and these do not answer: %s", strings.Join(silent, ", "))
	}
	// The ID is new for each volume, so no other cluster has this name.
	if err := f.member.Bootstrap(f.member.ID()); err != nil {
		return err
	}
	return nil
}

// join joins the cluster of a peer, and votes once this member has caught up.
func (f *former) join(ctx context.Context, peer string) error {
	own := f.member.Status()
	joining := client.Server{ID: own.ID, Address: own.Address, Voter: own.Role == client.Learner && own.Ready}
	ctx, cancel := context.WithTimeout(ctx, 10*f.options.Election)
	defer cancel()
	if err := f.client.Join(ctx, peer, joining); err != nil {
		return fmt.Errorf("joining the cluster of %s: %w", peer, err)
	}
	if !joining.Voter {
		return errors.New("this member has joined, and has to catch up before it votes")
	}
	return nil
}

func (f *former) ask(ctx context.Context, peer string) (client.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.Election)
	defer cancel()
	return f.client.Status(ctx, peer)
}
