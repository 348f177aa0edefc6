package command

import (
	"log/slog"
	"net"
	"os"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/processors"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes/scheme"
)

// NewOperator creates the command that runs the operator.
func NewOperator() *cobra.Command {
	var kubeconfig, level, format string
	var options controller.Options
	command := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator on your own cluster",
		Long: `Runs the operator until it gets an interrupt or SIGTERM. In a pod it uses the pod's
ServiceAccount; elsewhere it uses the credentials of the kubeconfig. The permissions that it
needs are in the role of charts/bellerophon-operator. It waits for a cluster that does not
answer, and for a resource definition that is not installed yet. It runs on one processor
while one is enough, and on all available processors otherwise. GOMAXPROCS sets a fixed number.`,
		Example: `  bellerophon operator --kubeconfig ~/.kube/config
  bellerophon operator --namespace team-a --workers 4 --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			least, err := logging.Level(level)
			if err != nil {
				return err
			}
			log, err := logging.New(os.Stderr, least, format)
			if err != nil {
				return err
			}
			config, err := connect.Config(kubeconfig)
			if err != nil {
				return err
			}
			types := scheme.Scheme
			if err := v1.AddToScheme(types); err != nil {
				return err
			}
			options.Logger = log
			options.OnListen = func(server string, address net.Addr) {
				log.Info("listening", "server", server, "address", address.String())
			}
			options.OnError = func(err error) { log.Warn(connect.Explain(err).Error()) }
			manager, err := controller.NewManager(config, types, options)
			if err != nil {
				return err
			}
			if err := simple.AddTo(manager); err != nil {
				return err
			}
			log.Info("operator started", slog.String("server", config.Host), slog.Any("namespaces", options.Namespaces))
			err = processors.Govern(command.Context(), manager.Run)
			log.Info("operator stopped")
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; default is $KUBECONFIG, then the pod's ServiceAccount, then ~/.kube/config")
	flags.StringSliceVarP(&options.Namespaces, "namespace", "n", nil, "watch only these namespaces, separated by commas; default all")
	flags.IntVar(&options.Workers, "workers", 0, "concurrent reconciles, 1 to 1024; default 32")
	flags.DurationVar(&options.Window, "debounce-window", 0, "how long an event of a busy object waits for a newer one; negative means no wait; default 10ms")
	flags.StringVar(&options.MetricsAddress, "metrics-address", ":8080", "where to serve /metrics; empty means nowhere")
	flags.StringVar(&options.HealthAddress, "health-address", ":8081", "where to serve /healthz and /readyz; empty means nowhere")
	flags.StringVar(&options.ProfileAddress, "profile-address", "", "where to serve /debug/pprof/ for `go tool pprof`; default nowhere")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&format, "log-format", "text", "text or json")
	_ = command.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logging.Levels, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(logging.Formats, cobra.ShellCompDirectiveNoFileComp))
	return command
}
