package localcluster

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

func TestAForwardPassesBothDirectionsAndTheirEnds(t *testing.T) {
	server, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("server", func(context.Context) error {
		connection, err := server.Accept()
		if err != nil {
			return err
		}
		defer connection.Close()
		// It answers when the request has ended.
		request, err := io.ReadAll(connection)
		if err == nil {
			_, err = io.WriteString(connection, strings.ToUpper(string(request)))
		}
		return err
	})
	f, err := newForward(address(0), func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Addr().String())
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	connection, err := net.Dial("tcp", f.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "request"); err != nil {
		t.Fatal(err)
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(connection); err != nil || string(answer) != "REQUEST" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := newForward(f.listener.Addr().String(), nil); !errors.Is(err, errAddressInUse) {
		t.Errorf("a second forward of the same address: %v, want errAddressInUse", err)
	}
}

func TestAForwardThatStopsEndsItsConnections(t *testing.T) {
	inside, server := net.Pipe()
	defer server.Close()
	f, err := newForward(address(0), func(context.Context) (net.Conn, error) { return inside, nil })
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", f.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	f.stop()
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("the connection to the server outlives the forward")
	}
	if _, err := connection.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of the client outlives the forward")
	}
}
