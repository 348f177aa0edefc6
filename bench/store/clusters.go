package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	members = 3
	// startTime bounds the start of a cluster.
	startTime = 30 * time.Second
	// endTime bounds the end of a member after SIGTERM.
	endTime = 10 * time.Second
)

// processes are the members of a cluster.
type processes struct{ group *lifecycle.Group }

// launch starts the members. A member that ends by itself ends the others.
func launch(ctx context.Context, dir string, commands [][]string) *processes {
	group := lifecycle.New(ctx)
	for i, line := range commands {
		group.Go(line[0], func(ctx context.Context) error {
			log, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.log", i)))
			if err != nil {
				return err
			}
			defer func() { _ = log.Close() }()
			command := exec.CommandContext(ctx, line[0], line[1:]...)
			command.Stdout, command.Stderr, command.WaitDelay = log, log, endTime
			command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
			if err := command.Run(); ctx.Err() == nil {
				said, _ := os.ReadFile(log.Name())
				return fmt.Errorf("member %d has ended: %w: %s", i, err, said[max(0, len(said)-1000):])
			}
			return nil
		})
	}
	return &processes{group}
}

func (p *processes) stop() error {
	p.group.Stop()
	return p.group.Wait()
}

// ports returns free ports of loopback. Another program could take one before a member does.
func ports(ctx context.Context, count int) (found []string, err error) {
	for range count {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }() // All at the end, so that they differ.
		found = append(found, listener.Addr().String())
	}
	return found, nil
}

// until calls a function until it returns nil: a member says nothing when it listens.
func until(ctx context.Context, holds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the cluster did not start: %w", err)
		}
	}
}

// bellerophon is a cluster of the software of Bellerophon.
type bellerophon struct {
	*processes
	addresses []string
	transport *http.Transport
}

func startOurs(ctx context.Context, program, dir string) (running, error) {
	addresses, err := ports(ctx, members)
	if err != nil {
		return nil, err
	}
	var commands [][]string
	for i, address := range addresses {
		commands = append(commands, []string{
			program, "server", "--name", fmt.Sprint(i), "--listen", address, "--address", address, "--data", filepath.Join(dir, fmt.Sprint(i)),
			"--peers", strings.Join(addresses, ","), "--log-level", "warn",
		})
	}
	b := &bellerophon{launch(ctx, dir, commands), addresses, &http.Transport{MaxIdleConnsPerHost: 1000}}
	over := client.New(nil, time.Second)
	defer over.Close()
	if err := until(ctx, func(ctx context.Context) error {
		for _, address := range addresses {
			status, err := over.Status(ctx, address)
			if err == nil && (!status.Ready || len(status.Members) < members) {
				err = fmt.Errorf("%s is not ready", address)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *bellerophon) stop() error {
	b.transport.CloseIdleConnections()
	return b.processes.stop()
}

func (b *bellerophon) session(number int) (session, error) {
	return overHTTP{&http.Client{Transport: b.transport}, "http://" + b.addresses[number%members] + "/v1/keys/"}, nil
}

// overHTTP is a client of Bellerophon.
type overHTTP struct {
	client *http.Client
	base   string
}

func (o overHTTP) send(ctx context.Context, method, key string, body io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, method, o.base+key, body)
	if err != nil {
		return err
	}
	response, err := o.client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err == nil && response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound {
		err = fmt.Errorf("%s %s: %s", method, key, response.Status)
	}
	return err
}

func (o overHTTP) put(ctx context.Context, key string, value []byte) error {
	return o.send(ctx, http.MethodPut, key, bytes.NewReader(value))
}

func (o overHTTP) get(ctx context.Context, key string) error {
	return o.send(ctx, http.MethodGet, key, nil)
}

// etcd is a cluster of etcd.
type etcd struct {
	*processes
	clients []*clientv3.Client // one for each member
}

func startEtcd(ctx context.Context, program, dir string) (running, error) {
	addresses, err := ports(ctx, 2*members)
	if err != nil {
		return nil, err
	}
	var cluster []string
	for i := range members {
		cluster = append(cluster, fmt.Sprintf("%d=http://%s", i, addresses[members+i]))
	}
	var commands [][]string
	for i := range members {
		own, peer := "http://"+addresses[i], "http://"+addresses[members+i]
		commands = append(commands, []string{
			program, "--name", fmt.Sprint(i), "--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--listen-client-urls", own, "--advertise-client-urls", own,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(cluster, ","), "--log-level", "error",
		})
	}
	e := &etcd{processes: launch(ctx, dir, commands)}
	for i := range members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{addresses[i]}, Context: ctx, DialTimeout: startTime})
		if err != nil {
			return nil, errors.Join(err, e.stop())
		}
		e.clients = append(e.clients, client)
	}
	for _, client := range e.clients {
		if err := until(ctx, func(ctx context.Context) error { _, err := client.Get(ctx, "key"); return err }); err != nil {
			return nil, errors.Join(err, e.stop())
		}
	}
	return e, nil
}

func (e *etcd) stop() error {
	var failed error
	for _, client := range e.clients {
		failed = errors.Join(failed, client.Close())
	}
	return errors.Join(failed, e.processes.stop())
}

func (e *etcd) session(number int) (session, error) { return overGRPC{e.clients[number%members]}, nil }

// overGRPC is a client of etcd.
type overGRPC struct{ client *clientv3.Client }

func (o overGRPC) put(ctx context.Context, key string, value []byte) error {
	_, err := o.client.Put(ctx, key, string(value))
	return err
}

func (o overGRPC) get(ctx context.Context, key string) error {
	_, err := o.client.Get(ctx, key)
	return err
}
