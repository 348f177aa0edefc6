package forward

import (
	"errors"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// TestALostLinkOpensNoStreamAndLeavesNoGoroutine relies on TestMain, which finds goroutines that are left: Close would
// wait without end for a stream that was created after the connection was lost.
func TestALostLinkOpensNoStreamAndLeavesNoGoroutine(t *testing.T) {
	for name, websockets := range map[string]bool{"websocket": true, "SPDY": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, websockets)
			place := c.start("pod", says("pod"))
			forwards, err := New(c.config(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			lost, err := forwards.dial(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the pod has the connection", func() bool { return c.dialed() == 1 })
			c.cut()
			<-lost.connection.CloseChan()
			group := lifecycle.New(t.Context())
			for number := range 100 {
				if _, err := lost.open(t.Context(), group, number, 80); !errors.Is(err, errLost) {
					t.Errorf("open returns %v, want %v", err, errLost)
				}
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			lost.close()
		})
	}
}
