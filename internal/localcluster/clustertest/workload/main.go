// Command workload is what containers of tests run. By default it serves HTTP. Its other commands
// are for `kubectl exec`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return serve()
	}
	switch name, rest := arguments[0], arguments[1:]; {
	case name == "write" && len(rest) == 2:
		return os.WriteFile(rest[0], []byte(rest[1]), 0o600)
	case name == "read" && len(rest) == 1:
		content, err := os.ReadFile(rest[0])
		fmt.Print(string(content))
		return err
	case name == "user" && len(rest) == 0:
		fmt.Println(os.Getuid())
		return nil
	case name == "resolve" && len(rest) == 1:
		addresses, err := net.LookupHost(rest[0])
		fmt.Println(strings.Join(addresses, " "))
		return err
	case name == "get" && len(rest) == 1:
		response, err := (&http.Client{Timeout: 10 * time.Second}).Get(rest[0])
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(os.Stdout, response.Body)
		return err
	}
	return fmt.Errorf("unknown command %q", arguments)
}

// serve answers every request with the name of the host until SIGTERM.
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(writer, host)
	})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Println("serving as", host)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
