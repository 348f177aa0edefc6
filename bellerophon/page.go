package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/browse"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes/scheme"
)

func newPage() *cobra.Command {
	var of asked
	port := uint16(0)
	command := &cobra.Command{
		Use:   "page [RECORDING]",
		Short: "Show the page of a running operator, or of a recording, in a browser",
		Long: `Starts a proxy on the loopback interface of this machine, which adds the token that a browser does not
have. It prints a URL with a key, and runs until Ctrl-C. The page is read-only. The proxy forwards the
page and its questions alone, and only for a browser that has opened the URL.

The operator may be any program with a manager of Bellerophon. With --operator-namespace, a port is
forwarded to the pod that leads. If the pod is replaced, or another one leads, page says so and goes on
with that one. The user of the token must be allowed to get /page/*,
/debug/manager, /debug/tree and /debug/why, and /debug/past/* for its recording: see
docs/permissions.md.

With RECORDING, no operator is needed: the page shows the folder that an operator has written with
--record, or a file of bellerophon replay --to-test.`,
		Example: `  bellerophon page --server http://127.0.0.1:8080
  bellerophon page --operator-namespace bellerophon --token-file token
  bellerophon page --operator-namespace bellerophon --port 9000
  bellerophon page /var/lib/bellerophon/recording`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return show(command.Context(), &of, port)
			}
			var err error
			command.Flags().Visit(func(given *pflag.Flag) {
				if given.Name != "port" {
					err = fmt.Errorf("--%s goes with an operator alone, and %s is a recording; leave out one of them", given.Name, args[0])
				}
			})
			if err != nil {
				return err
			}
			return showRecording(command.Context(), args[0], port)
		},
	}
	of.addServerFlags(command)
	command.Flags().Uint16Var(&port, "port", 0, "the port of the proxy, 0 to 65535; 0 means any free one")
	return command
}

// show shows the page until ctx ends.
func show(ctx context.Context, of *asked, port uint16) (err error) {
	if of.deployed.Namespace == "" {
		if err := ask.Ask(ctx, of.server, stateQuestion, func(introspection.State) error { return nil }); err != nil {
			return err
		}
		return serve(ctx, port, func(port string) (*browse.Proxy, error) { return browse.New(of.server, port) })
	}
	group := lifecycle.New(ctx)
	defer func() {
		group.Stop()
		if ended := group.Wait(); ended != nil {
			err = ended
		}
	}()
	leaders := make(chan ask.Server)
	group.Go("pods", func(ctx context.Context) error {
		return askOn(ctx, func(ctx context.Context, each func(introspection.State) error) error {
			return of.followLeader(ctx, leaders, each)
		}, func(introspection.State) error { return nil })
	})
	var first ask.Server
	select {
	case first = <-leaders:
	case <-group.Context().Done():
		return nil // The group has the reason.
	}
	return serve(group.Context(), port, func(port string) (*browse.Proxy, error) {
		proxy, err := browse.New(first, port)
		if err != nil {
			return nil, err
		}
		group.Go("page", func(ctx context.Context) error {
			for {
				select {
				case next := <-leaders:
					if err := proxy.SetServer(next); err != nil {
						return err
					}
				case <-ctx.Done():
					return nil
				}
			}
		})
		return proxy, nil
	})
}

// showRecording shows the page of a recording until ctx ends.
func showRecording(ctx context.Context, path string, port uint16) error {
	if _, _, err := recording.Began(path); err != nil {
		return err
	}
	return serve(ctx, port, func(port string) (*browse.Proxy, error) { return browse.NewRecorded(path, scheme.Scheme, port) })
}

// serve serves a page on the loopback interface until ctx ends.
func serve(ctx context.Context, port uint16, create func(port string) (*browse.Proxy, error)) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("--port is %d, where the page cannot be served; choose another one, or 0 for any free one: %w", port, err)
	}
	proxy, err := create(strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		_ = listener.Close() // Nothing was served yet.
		return err
	}
	screen.New(os.Stdout).Println("the page: " + proxy.URL() + " (Ctrl-C ends it)")
	return browse.Serve(ctx, listener, proxy)
}
