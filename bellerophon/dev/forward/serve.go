package forward

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// maxProblem bounds the message of a pod about a connection.
const maxProblem = 4 << 10

// openTime bounds the opening of a stream. A link whose pod does not answer in time is replaced.
const openTime = 5 * time.Second

// reportPatience is how long a message of the pod may follow the end of its data.
const reportPatience = time.Second

// serve forwards a local connection to the pod, until both sides have ended or ctx ends.
func (f *Forwards) serve(ctx context.Context, group *lifecycle.Group, local *net.TCPConn, target int) {
	patient, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	for {
		used, number, err := f.acquire(patient)
		if err != nil {
			if ctx.Err() == nil {
				f.logger.Warn("forward a connection", "port", target, "error", err)
			}
			return
		}
		opening, opened := context.WithTimeout(patient, openTime)
		made, err := used.open(opening, group, number, target)
		opened()
		if err != nil { // Nothing was sent, so the next link can serve the connection.
			f.logger.Debug("forward a connection: no stream to the pod; trying again", "port", target, "error", err)
			f.release(used, false, ctx.Err() == nil)
			continue
		}
		message := exchange(ctx, local, made)
		used.discard(made)
		// After a failure the pod's side of a link may read nothing more, also of other streams. And the pod may have a new
		// sandbox.
		f.release(used, true, message != "")
		if message != "" {
			f.logger.Warn("forward a connection", "port", target, "error", message)
		}
		return
	}
}

// exchange copies between a local connection and the pod. It ends when both directions have ended, when the pod has
// ended the request, or with ctx. It returns the message of the pod about a failure.
func exchange(ctx context.Context, local *net.TCPConn, made request) (message string) {
	group := lifecycle.New(ctx)
	received, reported := make(chan struct{}), make(chan struct{})
	group.Go("to the pod", func(context.Context) error {
		if _, err := io.Copy(made.data, local); err != nil {
			group.Stop()
			return nil
		}
		_ = made.data.Close() // The pod may have closed the stream.
		<-received
		group.Stop()
		return nil
	})
	group.Go("from the pod", func(context.Context) error {
		defer close(received)
		if _, err := io.Copy(local, made.data); err != nil {
			group.Stop()
			return nil
		}
		_ = local.CloseWrite() // The client may be gone.
		return nil
	})
	group.Go("message of the pod", func(context.Context) error {
		read, _ := io.ReadAll(io.LimitReader(made.problem, maxProblem)) // A part is better than nothing.
		message = string(read)
		close(reported)
		<-received // The pod has ended the request, but its last bytes may be in flight.
		group.Stop()
		return nil
	})
	<-group.Context().Done()
	_ = local.Close()
	_ = made.data.Reset()
	select {
	case <-reported:
	case <-time.After(reportPatience): // The pod has not ended the request.
	case <-ctx.Done():
	}
	_ = made.problem.Reset()
	_ = group.Wait()
	return message
}
