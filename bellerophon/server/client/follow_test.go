package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// TestAFollowedMemberThatFreezesCountsAsSilent has a member that reports twice and then freezes, with its connection open.
func TestAFollowedMemberThatFreezesCountsAsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := lifecycle.New(t.Context())
		over := NewOver(nil, func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			group.Go("member", func(context.Context) error { return reportTwice(far) })
			return near, nil
		}, Once)
		defer over.Close()
		began, seen := time.Now(), 0
		err := over.Follow(t.Context(), "member:7070", func(Status) { seen++ })
		if !errors.Is(err, errSilent) || seen != 2 {
			t.Errorf("after %d reports: %v, want that it is silent", seen, err)
		}
		if took := time.Since(began); took != betweenReports+maxSilence {
			t.Errorf("it counts as silent after %v, want %v after its last report", took, maxSilence)
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

const betweenReports = 20 * time.Second

// reportTwice answers a request with two reports, and returns when the client has closed the connection.
func reportTwice(conn net.Conn) error {
	in := bufio.NewReader(conn)
	if _, err := http.ReadRequest(in); err != nil {
		return err
	}
	const report = `{"id":"member"}` + "\n"
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(report), report); err != nil {
		return err
	}
	<-time.After(betweenReports)
	if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(report), report); err != nil {
		return err
	}
	_, _ = in.ReadByte()
	return conn.Close()
}
