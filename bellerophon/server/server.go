package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/api"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Options configures [Run].
type Options struct {
	// Name is the name of the pod.
	Name string
	// Listen is where the member serves, as host:port. A port of 0 is any.
	Listen string
	// Address is where other members reach it, as host:port. The default is the address of the listener.
	Address string
	// Dir is the folder of the volume. Only one process may use it.
	Dir string
	// Peers lists the addresses of all first members, this one among them. They form a cluster by themselves. Without
	// peers, the member waits until a client makes it a cluster, or a cluster lets it join.
	Peers []string
	// TLS has the files of the certificate. Without them, members and clients are not authenticated.
	TLS Files
	// Election is how long members wait for a leader that is silent: 50ms to 1m. The default is 1s.
	Election time.Duration
	// Quota is how many bytes the keys and values may have together. The default is 256 MiB.
	Quota int64
	Log   *slog.Logger
	// Connect connects to other members, at host:port. The default connects by TCP.
	Connect client.Dialer
}

// endWithin bounds how long the end of a member waits for requests in flight.
const endWithin = 10 * time.Second

// Run serves a member until ctx ends. A leader hands its leadership over before that, and requests in flight are
// answered. Run returns an error if the volume, the certificate or the port cannot be used.
func Run(ctx context.Context, options Options) (err error) {
	options.Election = cmp.Or(options.Election, time.Second)
	if options.Quota < 0 {
		return fmt.Errorf("the quota is %d; allowed are numbers of bytes from 1", options.Quota)
	}
	secure, err := options.TLS.load()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", options.Listen)
	if err != nil {
		return fmt.Errorf("listening for requests: %w", err)
	}
	options.Address = cmp.Or(options.Address, listener.Addr().String())
	peers := client.New(secure.client(), options.Election)
	if options.Connect != nil {
		peers = client.NewOver(secure.client(), options.Connect, client.Reuse)
	}
	defer peers.Close()
	measured := newMeasures()
	opened, err := member.Open(member.Options{
		Name: options.Name, Address: options.Address, Dir: options.Dir, Election: options.Election, Log: options.Log,
		Dial: peers.Dial, Ask: peers.Progress, Synced: measured.synced,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	measured.add(opened)
	return serve(ctx, options, secure, listener, peers, opened, measured)
}

// serve runs the parts of a member, and ends them in an order in which none of them misses another.
func serve(ctx context.Context, options Options, secure *certificates, listener net.Listener, peers *client.Client, opened *member.Member, measured *measures) error {
	// The member outlives the requests that it answers.
	group := lifecycle.New(context.WithoutCancel(ctx))
	running, leave := context.WithCancel(group.Context())
	defer leave()
	group.Go("running the member", func(context.Context) error { return opened.Run(running) })

	ending, end := context.WithCancel(group.Context())
	defer end()
	serving := &http.Server{
		Handler: api.New(ending, api.Options{
			Member: opened, Client: peers, Log: options.Log, Quota: options.Quota, Metrics: measured.handler(),
			Authenticated: secure != nil, Count: measured.count,
		}),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(options.Log.Handler(), slog.LevelDebug),
	}
	if secure != nil {
		serving.TLSConfig = secure.server()
		listener = tls.NewListener(listener, serving.TLSConfig)
	}
	group.Go("serving requests", func(context.Context) error {
		if err := serving.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if len(options.Peers) > 0 {
		group.Go("forming a cluster", func(context.Context) error {
			return (&former{member: opened, client: peers, options: options}).form(ending)
		})
	}
	options.Log.Info("the member serves", "id", opened.ID(), "address", options.Address)
	select {
	case <-ctx.Done():
	case <-group.Context().Done():
	}
	end()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	// The leadership goes first, while this member still forwards requests to the next leader.
	opened.HandOver(bounded)
	failed := serving.Shutdown(bounded)
	if failed != nil {
		failed = errors.Join(fmt.Errorf("ending requests in flight: %w", failed), serving.Close())
	}
	leave()
	err := group.Wait()
	options.Log.Info("the member has ended", "id", opened.ID())
	return errors.Join(err, failed)
}
