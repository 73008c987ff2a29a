import akka.actor.ActorSystem;
import akka.http.javadsl.Http;
import akka.http.javadsl.model.ContentType;
import akka.http.javadsl.model.HttpEntities;
import akka.http.javadsl.model.HttpResponse;
import akka.http.javadsl.model.MediaTypes;
import akka.http.javadsl.server.AllDirectives;
import akka.http.javadsl.server.Route;

/** The routing DSL as its documentation shows it. Usage: Server HOST PORT. */
public final class Server extends AllDirectives {
    private static final ContentType TEXT = MediaTypes.TEXT_PLAIN.toContentTypeWithMissingCharset();

    public static void main(String[] arguments) {
        ActorSystem system = ActorSystem.create("whyslow");
        Http.get(system)
            .newServerAt(arguments[0], Integer.parseInt(arguments[1]))
            .bind(new Server().routes())
            .exceptionally(failure -> {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
                return null;
            });
        // SIGTERM is to end it at once: without this the system shuts down in phases first.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
    }

    private Route routes() {
        byte[] body = "Hello, World!".getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        return path("plaintext", () ->
            complete(HttpResponse.create().withEntity(HttpEntities.create(TEXT, body))));
    }
}
