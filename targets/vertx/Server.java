import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpHeaders;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;

import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** An event loop for each worker, as the documentation shows it. Usage: Server HOST PORT WORKERS. */
public final class Server extends VerticleBase {
    private static final Buffer BODY = Buffer.buffer("Hello, World!");
    private static final String LENGTH = Integer.toString(BODY.length());
    /** As RFC 9110 writes a date. */
    private static final DateTimeFormatter DATE =
        DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.ENGLISH);

    private final String host;
    private final int port;
    private CharSequence date = date();

    private Server(String host, int port) {
        this.host = host;
        this.port = port;
    }

    public static void main(String[] arguments) {
        String host = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        int workers = Integer.parseInt(arguments[2]);
        Vertx.vertx(new VertxOptions().setEventLoopPoolSize(workers))
            .deployVerticle(() -> new Server(host, port), new DeploymentOptions().setInstances(workers))
            .onFailure(failure -> {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            });
        // SIGTERM is to end it at once.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
    }

    @Override
    public Future<?> start() {
        vertx.setPeriodic(1000, id -> date = date());
        return vertx.createHttpServer().requestHandler(this::answer).listen(port, host);
    }

    private void answer(HttpServerRequest request) {
        HttpServerResponse response = request.response();
        if (!request.path().equals("/plaintext")) {
            response.setStatusCode(404).end();
            return;
        }
        response.headers()
            .add(HttpHeaders.SERVER, "whyslow")
            .add(HttpHeaders.DATE, date)
            .add(HttpHeaders.CONTENT_TYPE, "text/plain")
            .add(HttpHeaders.CONTENT_LENGTH, LENGTH);
        response.end(BODY);
    }

    private static CharSequence date() {
        return HttpHeaders.createOptimized(DATE.format(ZonedDateTime.now(ZoneOffset.UTC)));
    }
}
