package devtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a program in a container, and returns its standard output. The error has its standard error. stdin
// may be nil. When ctx ends, Exec cuts the connection: the program reads the end of its input, and lives on.
func Exec(ctx context.Context, config *rest.Config, at container.Place, stdin io.Reader, command ...string) ([]byte, error) {
	var output, trouble bytes.Buffer
	err := Stream(ctx, config, at, remotecommand.StreamOptions{Stdin: stdin, Stdout: &output, Stderr: &trouble}, command...)
	if err != nil {
		return output.Bytes(), fmt.Errorf("run %q in %s: %w: %s", command, at.Pod, err, bytes.TrimSpace(trouble.Bytes()))
	}
	return output.Bytes(), nil
}

// Stream runs a program in a container as Exec does, with streams of the caller.
func Stream(ctx context.Context, config *rest.Config, at container.Place, streams remotecommand.StreamOptions, command ...string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	url := client.CoreV1().RESTClient().Post().Namespace(at.Namespace).Resource("pods").Name(at.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: at.Container, Command: command,
			Stdin: streams.Stdin != nil, Stdout: streams.Stdout != nil, Stderr: streams.Stderr != nil,
		}, scheme.ParameterCodec).URL()
	// The executor of WebSockets leaves a goroutine for seconds after the connection has been cut.
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}
