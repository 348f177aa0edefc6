package page_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes without a buffer.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if connection, is := <-p.accepted; is {
		return connection, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// The enemy is a browser whose machine has gone: its connection stays, and takes nothing.
func TestADeadConnectionEndsWithoutAnyHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		listener := pipes{make(chan net.Conn)}
		server := &http.Server{Handler: w.page, ReadHeaderTimeout: time.Second}
		w.group.Go("server", func(context.Context) error {
			if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
		near, far := net.Pipe()
		listener.accepted <- far
		if _, err := io.WriteString(near, "GET /page/events HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !w.isObserved() {
			t.Fatal("the streams are not observed for a browser")
		}
		<-time.After(6 * time.Second)
		synctest.Wait()
		if w.isObserved() {
			t.Error("the streams are observed for a connection that has taken nothing for 6 seconds")
		}
		if err := near.Close(); err != nil {
			t.Error(err)
		}
		close(listener.accepted)
		w.close()
	})
}
