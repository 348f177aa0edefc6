package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/bellerophon-io/bellerophon/bellerophon/browse"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/spf13/cobra"
)

func newPage() *cobra.Command {
	var of asked
	port := uint16(0)
	command := &cobra.Command{
		Use:   "page",
		Short: "Show the page of a running operator in a browser",
		Long: `Starts a proxy on the loopback interface of this machine, which adds the token that a browser does not
have. It prints a URL with a key, and runs until Ctrl-C. The page is read-only. The proxy forwards the
page and its questions alone, and only for a browser that has opened the URL.

The operator may be any program with a manager of Bellerophon. With --operator-namespace, a port is
forwarded to the pod that leads. The user of the token must be allowed to get /page/*,
/debug/manager, /debug/tree and /debug/why: see docs/permissions.md.`,
		Example: `  bellerophon page --server http://127.0.0.1:8080
  bellerophon page --operator-namespace bellerophon --token-file token
  bellerophon page --operator-namespace bellerophon --port 9000`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return show(command.Context(), &of, port) },
	}
	of.addServerFlags(command)
	command.Flags().Uint16Var(&port, "port", 0, "the port of the proxy, 0 to 65535; 0 means any free one")
	return command
}

// show shows the page until ctx ends.
func show(ctx context.Context, of *asked, port uint16) (err error) {
	group := lifecycle.New(ctx)
	defer func() {
		group.Stop()
		if ended := group.Wait(); err == nil {
			err = ended
		}
	}()
	server, err := of.leader(ctx, group)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("--port is %d, where the proxy cannot listen; choose another one, or 0 for any free one: %w", port, err)
	}
	proxy, err := browse.New(server, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		_ = listener.Close() // Nothing was served yet.
		return err
	}
	screen.New(os.Stdout).Println("the page: " + proxy.URL() + " (Ctrl-C ends it)")
	return browse.Serve(group.Context(), listener, proxy)
}
